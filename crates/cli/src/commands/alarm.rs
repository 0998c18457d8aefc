//! Alarms: what stops writes, or a member, until a person has looked.

use clap::Subcommand;
use tenure::api::wire::etcdserverpb::{
    self as pb, AlarmRequest, AlarmResponse, alarm_request::AlarmAction,
};
use tenure::grpc::{Client, ClientError};

use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Output;

/// What to do with alarms.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the alarms that are raised
    List,
    /// Lower all alarms, once their cause is gone
    Disarm,
}

/// Does it.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let alarms = match command {
        Command::List => list(&client).await?,
        Command::Disarm => disarm(&client).await?,
    };
    let mut output = Output::stdout(&settings);
    output.alarms(&alarms)?;
    output.flush()?;
    Ok(Exit::Done)
}

/// All alarms of all members.
pub(super) async fn list(client: &Client) -> Result<AlarmResponse, ClientError> {
    let every = AlarmRequest { action: AlarmAction::Get.into(), ..Default::default() };
    client.maintenance().alarm(every).await
}

/// etcd lowers only what is named, so each is.
async fn disarm(client: &Client) -> Result<AlarmResponse, ClientError> {
    let raised = list(client).await?;
    let mut lowered = AlarmResponse { alarms: vec![], ..raised };
    for pb::AlarmMember { member_id, alarm } in raised.alarms {
        let one = AlarmRequest { action: AlarmAction::Deactivate.into(), member_id, alarm };
        let answer = client.maintenance().alarm(one).await?;
        lowered.header = answer.header;
        lowered.alarms.extend(answer.alarms);
    }
    Ok(lowered)
}
