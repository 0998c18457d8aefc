//! Lets users and roles count, or count no more.

use std::path::PathBuf;

use clap::Subcommand;
use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Client, ClientError};

use super::user::From;
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::Output;

/// The user and the role that may do everything.
const ROOT: &str = "root";

/// What etcd says when there is a user root that cannot do everything yet.
const ROOT_LACKS_ROLE: &str = "etcdserver: root user does not have root role";
const ROLE_EXISTS: &str = "etcdserver: role name already exists";

/// What to do about users as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Let users and roles count: from now on every request needs a user that may do it
    Enable,
    /// Let users and roles count no more
    Disable,
    /// Show whether users and roles count
    Status,
    /// Give root a new password at the machine of a member, if the old one is lost
    ///
    /// What is made of the password is left in the data directory. When the member is started the next time, it has all
    /// members agree on it.
    Recover {
        /// The data directory of a member
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        #[command(flatten)]
        from: From,
    },
}

/// Does it.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let mut output = Output::stdout(&settings);
    match command {
        Command::Recover { data_dir, from } => {
            let password = from.read(ROOT)?;
            let cost = tenure_server::Config::default().bcrypt_cost;
            tenure_server::prepare_recovery(&data_dir, password.reveal(), cost)?;
            let said = format!(
                "Start the member of {} again: root has the new password then",
                data_dir.display()
            );
            output.auth_changed(&said, None)?;
        }
        Command::Enable => {
            let enabled = enable(&client).await?;
            output.auth_changed("Authentication Enabled", enabled.header.as_ref())?;
        }
        Command::Disable => {
            let disabled = client.auth().disable(pb::AuthDisableRequest {}).await?;
            output.auth_changed("Authentication Disabled", disabled.header.as_ref())?;
        }
        Command::Status => {
            output.auth_status(&client.auth().status(pb::AuthStatusRequest {}).await?)?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

/// As etcdctl does it: a user root that lacks its role gets it.
async fn enable(client: &Client) -> Result<pb::AuthEnableResponse, ClientError> {
    let auth = client.auth();
    match auth.enable(pb::AuthEnableRequest {}).await {
        Err(error) if says(&error, ROOT_LACKS_ROLE) => {}
        answered => return answered,
    }
    match auth.role_add(pb::AuthRoleAddRequest { name: ROOT.to_owned() }).await {
        Err(error) if !says(&error, ROLE_EXISTS) => return Err(error),
        _ => {}
    }
    let grant = pb::AuthUserGrantRoleRequest { user: ROOT.to_owned(), role: ROOT.to_owned() };
    auth.user_grant_role(grant).await?;
    auth.enable(pb::AuthEnableRequest {}).await
}

fn says(error: &ClientError, said: &str) -> bool {
    matches!(error, ClientError::Refused { text, .. } if text == said)
}
