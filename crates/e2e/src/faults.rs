//! What users of others suffer from, and what becomes of it here.
//!
//! [`faults`] is the one list. A line that etcd's API can express has a test, which plays the same story on a
//! real etcd 3.5.1 and on us ([`on_both`]) and compares what it saw with the words in the list; so what the
//! list says of either was seen. Other lines name the tests of ours that show what becomes of them, wherever
//! those are. `docs/records/peer-faults.md` is made from it, by `tests/elections/peer_faults.rs`, which also looks
//! whether everything that is named is there.

mod elections;
mod locks;
mod observers;
mod operations;
mod places;
mod sessions;

use crate::{Cluster, Etcd, Network, Plan, Side};

/// Every fault that concerns elections, locks, sessions, observers and operators.
pub fn faults() -> impl Iterator<Item = &'static Fault> {
    let users = [elections::FAULTS, locks::FAULTS, sessions::FAULTS, observers::FAULTS];
    users.into_iter().flatten().chain(operations::FAULTS)
}

/// One fault that was reported of another project.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What goes wrong.
    pub what: &'static str,
    /// Where it was reported, or read.
    pub source: &'static str,
    /// What becomes of it.
    pub shown: Shown,
}

/// What becomes of a fault.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// A story that both were told.
    Both {
        /// The test that tells it.
        test: &'static str,
        /// What it sees on etcd 3.5.1; where chance decides, the alternatives with " or " between them.
        etcd: &'static str,
        /// What it sees on us.
        tenure: &'static str,
    },
    /// A story that only we can be told: etcd's API has no words for it, or it is the holder's side.
    Ours {
        /// The tests that tell it.
        tests: &'static [Tests],
        /// What becomes of it here, and what does not.
        says: &'static str,
    },
}

/// Tests of one file: its path below `crates`, and their names. Of a file in `e2e/src/recipes` they are the
/// cases, which run on every engine.
pub type Tests = (&'static str, &'static [&'static str]);

/// Plays a story on a real etcd and on three of ours, and compares what was seen with the list.
pub async fn on_both(test: &str, story: impl AsyncFn(&mut Side) -> String) {
    played(test, 1, &[], story).await;
}

/// The same with this many members of etcd.
pub async fn on_so_many(test: &str, members: usize, story: impl AsyncFn(&mut Side) -> String) {
    played(test, members, &[], story).await;
}

/// The same with flags that both understand.
pub async fn on_both_with(test: &str, flags: &[&str], story: impl AsyncFn(&mut Side) -> String) {
    played(test, 1, flags, story).await;
}

/// The same with three members of each in a network of their own, whose links can be cut.
pub async fn on_networks(test: &str, story: impl AsyncFn(&mut Side, &Network) -> String) {
    let told = Told::of(test);
    let network = Network::new(3);
    let seen = story(&mut Side::Etcd(network.etcd().await), &network).await;
    // The next one has the same addresses.
    drop(network);
    told.of_etcd(&seen);
    let network = Network::new(3);
    told.of_us(&story(&mut Side::Tenure(network.cluster(&[]).await), &network).await);
}

async fn played(
    test: &str,
    members: usize,
    flags: &[&str],
    story: impl AsyncFn(&mut Side) -> String,
) {
    let told = Told::of(test);
    told.of_etcd(&story(&mut Side::Etcd(Etcd::with(members, flags).await)).await);
    let ours = Cluster::with(3, Plan::flags(flags)).await;
    told.of_us(&story(&mut Side::Tenure(ours)).await);
}

/// What the list says of a story.
struct Told {
    etcd: &'static str,
    tenure: &'static str,
}

impl Told {
    fn of(test: &str) -> Told {
        let told = faults().find_map(|fault| match fault.shown {
            Shown::Both { test: name, etcd, tenure } if name == test => Some(Told { etcd, tenure }),
            _ => None,
        });
        told.unwrap_or_else(|| panic!("{test} is not in the list of faults"))
    }

    fn of_etcd(&self, seen: &str) {
        let told = self.etcd;
        assert!(
            told.split(" or ").any(|one| one == seen),
            "what etcd does: {seen}, and not {told}"
        );
    }

    fn of_us(&self, seen: &str) {
        assert_eq!(seen, self.tenure, "what we do");
    }
}
