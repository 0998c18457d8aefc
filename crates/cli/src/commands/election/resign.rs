//! Make the leader give up, politely.
//!
//! No process can resign for another. What an operator can do is choose the next candidate as the successor: the leader
//! is asked to stop its work and make room, and is overtaken only if it takes too long. A leader that cannot be asked
//! (a stock client) is left to the harder verb, `evict`.

use std::time::Duration;

use serde::Serialize;
use tenure::api::wire::tenure::v1 as pb;
use tenure::grpc::Client;
use tokio::time::{Instant, sleep};

use super::words::{ended, reason, write};
use crate::args::{Settings, duration};
use crate::commands::queue::called;
use crate::exit::Exit;
use crate::output::visible;

/// Pause between two looks at the leader.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the cluster may take to act on a drain that is over.
const GRACE: Duration = Duration::from_secs(5);

/// The leadership that is to end.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of the election
    name: String,
    /// How long the leader may take to stop; then the next candidate leads anyway
    #[arg(long, default_value = "10s", value_parser = duration)]
    within: Duration,
    /// Do not wait until the next one leads
    #[arg(long)]
    no_wait: bool,
}

const EXAMPLES: &str = "\
Exit codes: 0 the next one leads, 1 it could not be done, 3 nobody leads, 124 it took too long.

Examples:
  tenure resign nightly-job                 the next candidate takes over
  tenure resign nightly-job --within 1m     give the leader a minute to finish
  tenure transfer nightly-job --to bob      if it matters who is next
  tenure evict nightly-job                  if no candidate waits, or the leader cannot be asked
";

#[derive(Serialize)]
struct HandedOver {
    name: String,
    from: String,
    from_token: i64,
    to: String,
    to_token: i64,
    /// Why the tenure ended, for scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// The same for people.
    #[serde(skip)]
    how: &'static str,
}

/// Asks the leader to make room for the next candidate, and waits until it has.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let election = client.elections().candidates(args.name.clone()).await?;
    let (leader, next) = match choose(&args.name, &election) {
        Ok(chosen) => chosen,
        Err((why, exit)) => {
            eprintln!("{}", visible(&why));
            return Ok(exit);
        }
    };
    let request = pb::TransferRequest {
        name: args.name.clone(),
        session: next.session,
        within_ms: (args.within.as_millis() as u64).max(1),
        ..Default::default()
    };
    let token = client.elections().transfer(request).await?.token;
    let asked = format!("{} is asked to make room for {}", called(leader), called(next));
    eprintln!("{}", visible(&asked));
    let mut done = HandedOver {
        from: called(leader),
        from_token: leader.token,
        to: called(next),
        to_token: token,
        ended: None,
        how: "",
        name: args.name,
    };
    let exit = if args.no_wait {
        Exit::Done
    } else {
        match wait(&client, &mut done, args.within).await? {
            Some((why, exit)) => {
                eprintln!("{}", visible(&why));
                return Ok(exit);
            }
            None => Exit::Done,
        }
    };
    write(&settings, [done], |done| {
        let (to, token, from) = (visible(&done.to), done.to_token, visible(&done.from));
        match &done.ended {
            Some(_) => {
                format!("{to} leads {} with token {token}; {from} ended: {}", done.name, done.how)
            }
            None => format!("{to} leads {} with token {token} when {from} has stopped", done.name),
        }
    })?;
    Ok(exit)
}

/// The leader and the next candidate; or why nothing can be done, and the exit code that says so.
fn choose<'a>(
    name: &str,
    election: &'a pb::CandidatesResponse,
) -> Result<(&'a pb::Candidate, &'a pb::Candidate), (String, Exit)> {
    let (holders, waiting): (Vec<_>, Vec<_>) =
        election.candidates.iter().partition(|one| one.holds);
    let leader = match holders[..] {
        [] => {
            let why = if election.frozen { " (frozen)" } else { "" };
            return Err((format!("nobody leads {name}{why}"), Exit::NotTaken));
        }
        [leader] => leader,
        _ => {
            let count = holders.len();
            let why = format!(
                "{count} hold {name} at once: tenure candidates {name} shows them, \
                 tenure evict {name} --token TOKEN takes one away"
            );
            return Err((why, Exit::Error));
        }
    };
    let evict = format!("tenure evict {name}");
    let who = called(leader);
    if leader.stock {
        let why = format!(
            "{who} leads {name} by etcd's means and cannot be asked to stop: \
             stop its process, or take the leadership away: {evict}"
        );
        return Err((why, Exit::Error));
    }
    let next = match waiting.iter().find(|one| one.session == election.successor) {
        // Asked for already: the chosen candidate stays chosen.
        Some(chosen) if election.successor != 0 => Some(*chosen),
        _ => waiting.iter().find(|one| !one.unhealthy).copied(),
    };
    match next {
        None if waiting.is_empty() => Err((
            format!("nobody waits behind {who}: {evict} takes the leadership away all the same"),
            Exit::Error,
        )),
        None => Err((
            format!("whoever waits behind {who} is unhealthy: {evict} takes the leadership away"),
            Exit::Error,
        )),
        Some(next) if next.stock => {
            let next = called(next);
            let why = format!(
                "{next} is next in {name} by etcd's means and cannot be chosen: {evict} makes {next} lead"
            );
            Err((why, Exit::Error))
        }
        Some(next) => Ok((leader, next)),
    }
}

/// Waits until the one that was chosen leads. Otherwise answers why not.
async fn wait(
    client: &Client,
    done: &mut HandedOver,
    within: Duration,
) -> anyhow::Result<Option<(String, Exit)>> {
    let deadline = Instant::now() + within + GRACE;
    loop {
        let election = client.elections().candidates(done.name.clone()).await?;
        match seen(done, &election) {
            Seen::Done => {
                let tenures = client.elections().history(done.name.clone()).await?.tenures;
                let end = tenures.iter().rfind(|tenure| tenure.token == done.from_token);
                done.ended = Some(end.map_or("unknown".to_owned(), |end| reason(end.reason())));
                done.how = end.map_or("unknown", ended);
                return Ok(None);
            }
            Seen::InVain(why) => return Ok(Some((why, Exit::Error))),
            Seen::NotYet(why) if Instant::now() > deadline => {
                return Ok(Some((why, Exit::TimedOut)));
            }
            Seen::NotYet(_) => {}
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// How far it has come.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Done,
    /// What is to be said if the time is over.
    NotYet(String),
    /// It will not come to that.
    InVain(String),
}

/// Only the token identifies the leader: between the choice and the transfer another candidate may have become leader,
/// and then that one makes room.
fn seen(done: &HandedOver, election: &pb::CandidatesResponse) -> Seen {
    let HandedOver { name, from, to, .. } = done;
    let under_way = election.successor != 0;
    match election.candidates.iter().find(|one| one.holds) {
        Some(leader) if leader.token == done.to_token => Seen::Done,
        Some(leader) if leader.token == done.from_token && under_way => {
            Seen::NotYet(format!("{from} still leads {name}"))
        }
        Some(leader) if leader.token == done.from_token => {
            Seen::InVain(format!("{to} went away: {from} leads on"))
        }
        Some(leader) if under_way => {
            let (who, token) = (called(leader), leader.token);
            Seen::NotYet(format!("{from} has stopped, but {who} leads {name} with token {token}"))
        }
        Some(leader) => {
            let (who, token) = (called(leader), leader.token);
            let text = format!("{from} has stopped, but {who} leads {name} with token {token}");
            Seen::InVain(format!("{text}, not {to}"))
        }
        None if election.candidates.is_empty() || election.frozen => {
            Seen::InVain(format!("{from} has stopped, and nobody leads {name}"))
        }
        None => Seen::NotYet(format!("{from} has stopped, and nobody leads {name} yet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(identity: &str, holds: bool) -> pb::Candidate {
        let session = identity.bytes().map(i64::from).sum();
        pb::Candidate { identity: identity.into(), session, holds, ..Default::default() }
    }

    fn chosen(election: &pb::CandidatesResponse) -> Result<String, (String, Exit)> {
        choose("jobs", election).map(|(_, next)| next.identity.clone())
    }

    fn election(candidates: Vec<pb::Candidate>) -> pb::CandidatesResponse {
        pb::CandidatesResponse { candidates, ..Default::default() }
    }

    #[test]
    fn resign_chooses_the_first_healthy_candidate_behind_the_leader() {
        let sick = pb::Candidate { unhealthy: true, ..one("bob", false) };
        let all = election(vec![one("alice", true), sick.clone(), one("carol", false)]);
        assert_eq!(chosen(&all).as_deref(), Ok("carol"));
        let (why, exit) = chosen(&election(vec![one("alice", true), sick])).unwrap_err();
        assert!(why.contains("unhealthy") && exit == Exit::Error, "{why}");
    }

    #[test]
    fn resign_keeps_a_successor_that_was_chosen_before() {
        let dave = one("dave", false);
        let successor = dave.session;
        let candidates = vec![one("alice", true), one("bob", false), dave];
        let all = pb::CandidatesResponse { successor, ..election(candidates) };
        assert_eq!(chosen(&all).as_deref(), Ok("dave"));
    }

    #[test]
    fn resign_says_what_can_be_done_instead() {
        let stock = |identity: &str, holds| pb::Candidate { stock: true, ..one(identity, holds) };
        for (candidates, code, says) in [
            (vec![], Exit::NotTaken, "nobody leads jobs"),
            (vec![one("alice", true)], Exit::Error, "nobody waits behind alice: tenure evict jobs"),
            (vec![stock("alice", true), one("bob", false)], Exit::Error, "tenure evict jobs"),
            (vec![one("alice", true), stock("bob", false)], Exit::Error, "makes bob lead"),
            (vec![one("alice", true), one("bob", true)], Exit::Error, "--token"),
        ] {
            let (why, exit) = chosen(&election(candidates)).unwrap_err();
            assert!(exit == code && why.contains(says), "{exit:?}: {why}");
        }
    }

    #[test]
    fn resign_succeeds_only_with_the_chosen_successor() {
        let done = HandedOver {
            name: "jobs".into(),
            from: "alice".into(),
            from_token: 5,
            to: "bob".into(),
            to_token: 7,
            ended: None,
            how: "",
        };
        let leads = |identity: &str, token| pb::Candidate { token, ..one(identity, true) };
        let bob = pb::Candidate { token: 7, ..one("bob", false) };
        let at = |leader: pb::Candidate, successor| {
            let all = election(vec![leader, bob.clone()]);
            seen(&done, &pb::CandidatesResponse { successor, ..all })
        };
        assert_eq!(seen(&done, &election(vec![leads("bob", 7)])), Seen::Done);
        assert_eq!(at(leads("alice", 5), 9), Seen::NotYet("alice still leads jobs".into()));
        assert_eq!(at(leads("alice", 5), 0), Seen::InVain("bob went away: alice leads on".into()));
        // Carol took over before the transfer was asked for, and now carol makes room.
        assert!(
            matches!(at(leads("carol", 6), 9), Seen::NotYet(why) if why.contains("carol leads"))
        );
        assert!(matches!(at(leads("carol", 8), 0), Seen::InVain(why) if why.ends_with("not bob")));
        let Seen::NotYet(why) = seen(&done, &election(vec![bob.clone()])) else {
            panic!("not yet")
        };
        assert_eq!(why, "alice has stopped, and nobody leads jobs yet");
        assert!(matches!(seen(&done, &election(vec![])), Seen::InVain(_)));
    }
}
