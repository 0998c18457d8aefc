//! All elections and locks: those that are asked for, once or as they change.

use std::time::Duration;

use serde::Serialize;
use tenure::api::wire::tenure::v1::{self as pb, ElectionOrder, ElectionState};
use tokio::signal::ctrl_c;

use super::words::{Candidate, write};
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::visible;
use crate::talk::talk;

/// The pause before a broken stream is taken up again.
const PAUSE: Duration = Duration::from_millis(100);
/// So many failures in a row are not worth a line, and the next one is.
const FAILURES_UNTOLD: u32 = 2;

/// Which of all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only names that begin so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Only those in this state; may be repeated
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<State>,
    /// Only names that contain this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    contains: String,
    /// In which order
    #[arg(long, value_enum, default_value = "name")]
    order: Order,
    /// Leave out so many from the beginning
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    offset: u32,
    /// So many at the most, up to 2000
    #[arg(long, default_value_t = 2000, value_name = "N")]
    limit: u32,
    /// Also names without a candidate, as long as they are remembered
    #[arg(long)]
    idle: bool,
    /// Show how all stand, then every change, until interrupted; only a prefix chooses then
    #[arg(long, conflicts_with_all = ["state", "contains", "order", "offset", "limit", "idle"])]
    follow: bool,
    /// With --follow: only what happened since this revision
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "REVISION",
        requires = "follow"
    )]
    after_rev: i64,
}

/// An election in one word.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum State {
    Steady,
    Contested,
    Vacant,
    Flapping,
    Frozen,
    HandingOver,
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// By name
    Name,
    /// Most changes in 24 hours first
    Changes,
    /// Most waiting candidates first
    Waiting,
    /// The latest new leader first
    Newest,
}

impl State {
    fn on_the_wire(self) -> i32 {
        let state = match self {
            State::Steady => ElectionState::StateSteady,
            State::Contested => ElectionState::StateContested,
            State::Vacant => ElectionState::StateVacant,
            State::Flapping => ElectionState::StateFlapping,
            State::Frozen => ElectionState::StateFrozen,
            State::HandingOver => ElectionState::StateHandingOver,
            State::Idle => ElectionState::StateIdle,
        };
        state as i32
    }
}

/// A state as it is written: `handing_over`.
fn word(state: ElectionState) -> Option<String> {
    let name = state.as_str_name().strip_prefix("STATE_")?.to_lowercase();
    (state != ElectionState::StateUnknown).then_some(name)
}

#[derive(Serialize)]
struct Line {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    holders: u32,
    waiting: u32,
    frozen: bool,
    leader: Option<Candidate>,
    /// In 24 hours.
    #[serde(skip_serializing_if = "is_zero")]
    changes: u32,
    /// Of the feed: resume with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    /// Of the feed: nothing is known of it any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl From<pb::ElectionInfo> for Line {
    fn from(election: pb::ElectionInfo) -> Line {
        Line {
            state: word(election.state()),
            name: election.name,
            holders: election.holders,
            waiting: election.waiting,
            frozen: election.frozen,
            leader: election.leader.map(Candidate::from),
            changes: election.changes,
            revision: None,
            gone: false,
        }
    }
}

impl Line {
    fn gone(name: String, revision: i64) -> Line {
        let revision = Some(revision);
        Line { revision, gone: true, ..Line::from(pb::ElectionInfo { name, ..Default::default() }) }
    }

    /// One line for people.
    fn text(&self) -> String {
        let name = visible(&self.name);
        if self.gone {
            return format!("{name}\tforgotten");
        }
        let leader = self.leader.as_ref().map_or("nobody leads".into(), Candidate::election);
        let frozen = if self.frozen { "\tfrozen" } else { "" };
        format!("{name}\t{} hold, {} wait\t{leader}{frozen}", self.holders, self.waiting)
    }
}

/// Shows them.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    if args.follow {
        return follow(args, settings).await;
    }
    let order = match args.order {
        Order::Name => ElectionOrder::ByName,
        Order::Changes => ElectionOrder::ByChanges,
        Order::Waiting => ElectionOrder::ByWaiting,
        Order::Newest => ElectionOrder::ByBeginning,
    };
    // What a server of an earlier release understands, unless more is asked for.
    let limit = if args.limit == 2000 { 0 } else { args.limit };
    let request = pb::ListElectionsRequest {
        prefix: args.prefix,
        contains: args.contains,
        states: args.state.into_iter().map(State::on_the_wire).collect(),
        order: order as i32,
        offset: args.offset,
        limit,
        with_idle: args.idle,
        ..Default::default()
    };
    let elections = settings.client().elections().overview(request).await?.elections;
    write(&settings, elections.into_iter().map(Line::from), Line::text)?;
    Ok(Exit::Done)
}

/// Writes how they stand and what changes until interrupted. A stream that breaks is taken up where it broke, at any member.
async fn follow(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let (mut after_revision, mut failures, mut began) = (args.after_rev, 0, false);
    loop {
        let request =
            pb::FollowRequest { prefix: args.prefix.clone(), after_revision, ..Default::default() };
        let lines = async {
            let mut news = client.elections().follow(request).await?;
            while let Some(news) = news.next().await? {
                (failures, began) = (0, true);
                let revision = news.revision;
                let changed = news.changed.into_iter();
                let changed = changed.map(|one| Line { revision: Some(revision), ..one.into() });
                let gone = news.gone.into_iter().map(|name| Line::gone(name, revision));
                write(&settings, changed.chain(gone), Line::text)?;
                if news.complete {
                    after_revision = revision;
                }
            }
            anyhow::Ok(())
        };
        let ended = tokio::select! {
            ended = lines => ended,
            interrupted = ctrl_c() => return interrupted.map(|()| Exit::Interrupted).map_err(Into::into),
        };
        if let Err(error) = ended {
            let lasting = error.downcast_ref::<tenure::grpc::ClientError>();
            if !began || lasting.is_none_or(tenure::grpc::ClientError::is_refused) {
                return Err(error);
            }
            failures += 1;
            if failures == FAILURES_UNTOLD {
                talk!("tenure: following the elections: {error}; trying again");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
