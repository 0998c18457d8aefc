//! Observers that come back hear of everything that they missed, or that something is missing.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use tenure_api::{LeaseId, Principal, Put, Revision, Term, op::PutLease};
use tenure_replica::{
    EntryContext, State,
    command::{Command, ELECTIONS_SINCE, ElectionCommand, JoinSpec, SessionRequest},
    election::{
        ElectionEvent, EndReason, Mode, key_of,
        listeners::{Listener, ListenerEvent, ListenerInput, Listeners, Observed},
    },
    new_cluster::{by_clock, first_revision},
    state::ApplyEffects,
};

const OBSERVER: Listener = 1;
/// Tenures of one election that are remembered when they have ended.
const REMEMBERED: i64 = 32;

/// A state to which clients of etcd's do things.
struct Town {
    state: State,
    index: u64,
}

impl Town {
    fn new() -> Town {
        let mut state = State::new(vec![]);
        state.cluster_version = ELECTIONS_SINCE;
        Town { state, index: 0 }
    }

    fn does(&mut self, command: &Command) -> Vec<ElectionEvent> {
        self.index += 1;
        let at = EntryContext { index: self.index, term: Term(1), ms: self.index };
        let mut effects = ApplyEffects::default();
        self.state.apply(at, &Principal::System, command, &mut effects).unwrap();
        effects.elections
    }

    /// A session opens and joins an election.
    fn joins(&mut self, name: &str, session: i64, priority: u32) -> Vec<ElectionEvent> {
        let (id, identity) = (LeaseId(session), String::new());
        let open = ElectionCommand::Open {
            id,
            ttl_ms: 5000,
            identity,
            fast_release: false,
            by: 0,
            secret: None,
        };
        self.does(&Command::Election(open));
        let join = JoinSpec {
            priority,
            ..JoinSpec::one(Bytes::copy_from_slice(name.as_bytes()), Mode::Exclusive)
        };
        self.does(&Command::Election(ElectionCommand::Request {
            session: id,
            number: 1,
            request: SessionRequest::Join(join),
        }))
    }

    fn shows(&mut self, name: &str, lease: i64, value: &str) {
        let (key, lease) = (key_of(name.as_bytes(), LeaseId(lease)), LeaseId(lease));
        if !self.state.leases.contains(lease) {
            self.does(&Command::LeaseGrant { id: lease, ttl_secs: 5 });
        }
        let put = Put {
            key,
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            lease: PutLease::Set(Some(lease)),
            prev_kv: false,
        };
        self.does(&Command::Put(put));
    }

    fn goes(&mut self, lease: i64) {
        self.does(&Command::LeaseRevoke(LeaseId(lease)));
    }

    fn now(&self) -> Revision {
        self.state.store.revision()
    }

    /// What an observer is told that was told everything up to a revision.
    fn told_after(&self, name: &str, after: Revision) -> Vec<Observed> {
        let mut listeners = Listeners::default();
        let name = Bytes::copy_from_slice(name.as_bytes());
        let observe = ListenerInput::Observe { listener: OBSERVER, name, after: Some(after) };
        listeners.handle(Principal::Anonymous, observe, &self.state);
        let news = listeners.take_news().into_iter();
        news.map(|(_, news)| match news {
            ListenerEvent::Observed(seen) => seen,
            other => panic!("an observer was told {other:?}"),
        })
        .collect()
    }
}

#[test]
fn observer_is_told_of_a_value_that_changed_meanwhile() {
    let mut town = Town::new();
    town.shows("jobs", 7, "10.0.0.7");
    let left = town.now();
    town.shows("jobs", 7, "10.0.0.8");
    let told = town.told_after("jobs", left);
    let [Observed::Proclaimed(_, kv)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(&kv.value[..], b"10.0.0.8");
    assert_eq!(town.told_after("jobs", town.now()), []);
}

#[test]
fn observer_gets_the_whole_value_of_the_present_leader() {
    let mut town = Town::new();
    town.shows("jobs", 7, "old");
    let left = town.now();
    town.goes(7);
    let long = "x".repeat(20_000);
    town.shows("jobs", 8, &long);
    let told = town.told_after("jobs", left);
    let [Observed::Ended(_), Observed::Began(_, Some(kv))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(kv.value.len(), long.len());
}

/// So many other names come and go that elections without candidates are forgotten.
fn others_come_and_go(town: &mut Town) {
    for other in 0..1100 {
        town.shows(&format!("other/{other}"), 9, "x");
        town.goes(9);
    }
}

#[test]
fn observer_of_a_forgotten_election_is_told_of_the_gap_and_the_present() {
    let mut town = Town::new();
    town.shows("jobs", 7, "first");
    let left = town.now();
    town.goes(7);
    town.shows("jobs", 8, "second");
    town.goes(8);
    others_come_and_go(&mut town);
    // The leader it knows of leads no more, and nothing that is remembered says so.
    let vacant = Observed::Vacant { revision: town.now(), frozen: false };
    assert_eq!(town.told_after("jobs", left), [Observed::Forgotten(left), vacant]);
    // Also if there is such an election again.
    town.shows("jobs", 10, "third");
    let told = town.told_after("jobs", left);
    let [Observed::Forgotten(after), Observed::Began(tenure, Some(_))] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((*after, &tenure.identity[..]), (left, "third"));
    assert_eq!(town.told_after("jobs", town.now()), []);
}

#[test]
fn observer_has_no_gap_because_other_elections_were_forgotten() {
    let mut town = Town::new();
    town.shows("jobs", 7, "first");
    town.shows("idle", 8, "passing");
    let left = town.now();
    town.goes(8);
    others_come_and_go(&mut town);
    assert_eq!(town.told_after("jobs", left), [], "nothing happened there");
    town.goes(7);
    let told = town.told_after("jobs", left);
    assert!(matches!(&told[..], [Observed::Ended(_), Observed::Vacant { .. }]), "{told:?}");
    let told = town.told_after("idle", left);
    assert!(matches!(&told[..], [Observed::Forgotten(_), Observed::Vacant { .. }]), "{told:?}");
}

/// A stream may break between any two things that are told.
#[test]
fn observer_that_resumes_after_any_event_misses_nothing() {
    let mut town = Town::new();
    town.shows("jobs", 1, "1");
    let start = town.now();
    for lease in 2..=REMEMBERED + 3 {
        town.shows("jobs", lease, "waits");
        town.goes(lease - 1);
    }
    town.shows("jobs", REMEMBERED + 3, "by now");
    let told = town.told_after("jobs", start);
    assert_eq!(told[0], Observed::Forgotten(start));
    for (at, seen) in told.iter().enumerate() {
        let rest = town.told_after("jobs", seen.revision());
        match seen {
            Observed::Forgotten(_) => assert_eq!(rest, told, "the gap is told again"),
            // What follows an end happened at the same revision, so that it is told as if at the one before.
            Observed::Ended(_) => {
                let rest = town.told_after("jobs", Revision(seen.revision().0 - 1));
                assert_eq!(rest[..], told[at..], "after {seen:?}");
            }
            _ => assert_eq!(rest[..], told[at + 1..], "after {seen:?}"),
        }
    }
}

#[test]
fn observer_of_a_restored_cluster_is_told_the_present() {
    let mut town = Town::new();
    town.shows("jobs", 7, "first");
    let backup = town.state.clone();
    town.shows("jobs", 7, "more");
    let left = town.now();
    let first = first_revision(backup.store.revision(), 0, None).unwrap();
    town.state = backup.new_cluster(vec![], first);
    let gone =
        |told: &[Observed]| matches!(told, [Observed::Forgotten(_), Observed::Vacant { .. }]);
    assert!(gone(&town.told_after("jobs", left)));
    // The same backup was restored before, and that cluster went on as far as its clock allowed.
    let left = by_clock(1_700_000_000_000);
    town.state.leap(1_700_000_001_000);
    assert!(left < town.now());
    assert!(gone(&town.told_after("jobs", left)));
}

#[test]
fn observer_history_drops_the_oldest_tenure() {
    let mut town = Town::new();
    let start = town.now();
    let mut ends = vec![];
    for lease in 1..=REMEMBERED {
        town.shows("jobs", lease, &lease.to_string());
        town.goes(lease);
        ends.push(town.now());
    }
    let who_led = |town: &Town| -> Vec<i64> {
        let election = town.state.elections.election(b"jobs").unwrap();
        election.tenures().map(|tenure| tenure.identity.parse().unwrap()).collect()
    };
    assert_eq!(who_led(&town), (1..=REMEMBERED).collect::<Vec<_>>());
    let told = town.told_after("jobs", start);
    assert!(!told.iter().any(|told| matches!(told, Observed::Forgotten(_))), "{told:?}");

    let one_more = REMEMBERED + 1;
    town.shows("jobs", one_more, &one_more.to_string());
    assert_eq!(who_led(&town), (1..=one_more).collect::<Vec<_>>(), "only what has ended counts");
    town.goes(one_more);
    assert_eq!(who_led(&town), (2..=one_more).collect::<Vec<_>>());
    // An observer that was told of its end has missed nothing; all others hear that something is missing.
    assert_eq!(town.told_after("jobs", start)[0], Observed::Forgotten(start));
    let almost = Revision(ends[0].0 - 1);
    assert_eq!(town.told_after("jobs", almost)[0], Observed::Forgotten(almost));
    let told = town.told_after("jobs", ends[0]);
    assert!(matches!(&told[0], Observed::Began(tenure, _) if tenure.identity == "2"), "{told:?}");
}

#[test]
fn candidate_listener_hears_that_a_passed_over_candidacy_is_gone() {
    let mut town = Town::new();
    town.joins("jobs", 1, 0);
    town.joins("jobs", 2, 0);
    let mut listeners = Listeners::default();
    let name = Bytes::from_static(b"jobs");
    let (key, created) = (key_of(&name, LeaseId(2)), town.now());
    let wait = ListenerInput::Await { listener: OBSERVER, name, key, created };
    listeners.handle(Principal::Anonymous, wait, &town.state);
    assert_eq!(listeners.take_news(), [], "it waits");
    listeners.observe(&town.joins("jobs", 3, 5));
    let gone = ListenerEvent::Gone(Some(EndReason::Preempted));
    assert_eq!(listeners.take_news(), [(OBSERVER, gone)]);
}
