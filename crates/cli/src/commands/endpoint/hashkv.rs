//! A checksum of each member's keys and history, and whether they agree.

use tenure::api::wire::etcdserverpb::{HashKvRequest, HashKvResponse};

use super::everyone;
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::{MemberHash, Output};

/// Which members, and up to which revision.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    whom: super::Whom,
    /// Take history up to this revision only [default: each member's newest]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    rev: i64,
}

/// Asks every member. The verdict goes to stderr: stdout is etcdctl's, to the letter.
pub(super) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let client = everyone(&settings, args.whom.cluster).await?;
    let mut answers = Vec::new();
    let mut failure = None;
    for (endpoint, member) in client.each_member() {
        match member.maintenance().hash_kv(HashKvRequest { revision: args.rev }).await {
            Ok(hash) => answers.push(MemberHash { endpoint: endpoint.to_string(), hash }),
            Err(error) => {
                eprintln!("Failed to get the hash of endpoint {endpoint} ({error})");
                failure = Some(error);
            }
        }
    }
    let mut output = Output::stdout(&settings);
    output.hashes(&answers)?;
    output.flush()?;
    let verdict = Verdict::of(&answers, args.rev);
    if answers.len() > 1 {
        eprintln!("{verdict}");
    }
    match (failure, verdict) {
        (Some(error), _) => Err(error.into()),
        (None, Verdict::Differ(_)) => Ok(Exit::Error),
        (None, _) => Ok(Exit::Done),
    }
}

/// What the checksums say together.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// All are the same.
    Equal { members: usize, revision: i64 },
    /// The same revision has different content: the members by checksum.
    Differ(Vec<(u32, Vec<String>)>),
    /// Checksums of different histories say nothing. The newest revision that all have.
    Incomparable { common: i64 },
}

impl Verdict {
    fn of(answers: &[MemberHash], asked: i64) -> Verdict {
        // An etcd before 3.6 does not say up to where it went: as asked, or its newest.
        let reached = |hash: &HashKvResponse| match (hash.hash_revision, asked) {
            (0, 0) => hash.header.as_ref().map_or(0, |header| header.revision),
            (0, asked) => asked,
            (revision, _) => revision,
        };
        let place = |answer: &MemberHash| (reached(&answer.hash), answer.hash.compact_revision);
        let common = answers.iter().map(|answer| place(answer).0).min().unwrap_or_default();
        if answers.windows(2).any(|pair| place(&pair[0]) != place(&pair[1])) {
            return Verdict::Incomparable { common };
        }
        let mut groups: Vec<(u32, Vec<String>)> = Vec::new();
        for MemberHash { endpoint, hash } in answers {
            match groups.iter_mut().find(|(known, _)| *known == hash.hash) {
                Some((_, endpoints)) => endpoints.push(endpoint.clone()),
                None => groups.push((hash.hash, vec![endpoint.clone()])),
            }
        }
        match groups.len() {
            0 | 1 => Verdict::Equal { members: answers.len(), revision: common },
            _ => Verdict::Differ(groups),
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Equal { members, revision } => {
                write!(f, "all {members} members are equal at revision {revision}")
            }
            Verdict::Differ(groups) => {
                write!(f, "THE MEMBERS DIFFER:")?;
                for (hash, endpoints) in groups {
                    write!(f, "\n  {hash}: {}", endpoints.join(", "))?;
                }
                Ok(())
            }
            Verdict::Incomparable { common } => write!(
                f,
                "no verdict: the members are at different revisions; compare them with --rev {common}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(endpoint: &str, hash: u32, hash_revision: i64) -> MemberHash {
        let hash = HashKvResponse { hash, hash_revision, ..Default::default() };
        MemberHash { endpoint: endpoint.into(), hash }
    }

    #[test]
    fn hashkv_compares_members_at_the_same_revision_only() {
        let verdict = |answers: &[MemberHash]| Verdict::of(answers, 0).to_string();
        assert_eq!(
            verdict(&[answer("a", 5, 9), answer("b", 5, 9)]),
            "all 2 members are equal at revision 9"
        );
        assert_eq!(
            verdict(&[answer("a", 5, 9), answer("b", 6, 8)]),
            "no verdict: the members are at different revisions; compare them with --rev 8"
        );
        assert_eq!(
            verdict(&[answer("a", 5, 9), answer("b", 6, 9), answer("c", 5, 9)]),
            "THE MEMBERS DIFFER:\n  5: a, c\n  6: b"
        );
    }
}
