//! A member among one sound peer and one that says anything: it does not end, keeps what it has acknowledged, and serves
//! again when the noise is over.
//!
//! What is generated is arbitrary, numbers mostly near those that matter. Not generated is what only a lying majority could
//! be kept from doing harm with: log entries that do not decode, and states made up to look later than ours.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*, sample::select};
use tenure_api::{Member, MemberId, Put, Range, Span, Term, op::PutLease};
use tenure_damage::hold;
use tenure_replica::{
    Effects, Entry, EntryKind, Input, Message, Moment, Notice, Operation, RaftKind, RaftMessage,
    Recovered, RefusedMessage, Replica, ReplicaConfig, Reply, Request, SnapshotMark, State,
    canary::Canary,
    codec::Codec,
    command::{Attributed, Batch, COMMAND_VERSION, Command, Expiry},
};

const ME: MemberId = MemberId(1);
const SOUND: MemberId = MemberId(2);
const HOSTILE: MemberId = MemberId(3);

/// Member 1. Member 2 says yes to everything.
struct House {
    replica: Replica,
    members: Vec<Member>,
    now: Moment,
    requests: u64,
    acknowledged: BTreeMap<Bytes, Bytes>,
    asked: BTreeMap<u64, Bytes>,
    refused: Vec<RefusedMessage>,
}

impl House {
    fn new() -> House {
        let member = |id| Member {
            id: MemberId(id),
            name: format!("n{id}"),
            peer_urls: vec![format!("http://n{id}:2380")],
            client_urls: vec![],
            is_learner: false,
        };
        let members: Vec<Member> = [1, 2, 3].map(member).to_vec();
        let recovered = Recovered { boot: 1, ..Recovered::default() };
        let mut house = House {
            replica: Replica::new(Moment::ZERO, ReplicaConfig::new(ME, members.clone()), recovered),
            members,
            now: Moment::ZERO,
            requests: 0,
            acknowledged: BTreeMap::new(),
            asked: BTreeMap::new(),
            refused: vec![],
        };
        house.hand(vec![Input::Connected(SOUND), Input::Connected(HOSTILE)]);
        house.serves();
        // Without what each member says of itself the cluster uses no newer commands.
        for member in [SOUND, HOSTILE] {
            let publish = Command::Publish {
                member,
                name: format!("n{member}"),
                client_urls: vec![],
                command_version: COMMAND_VERSION,
                directory: member.0,
            };
            house.hear(member, Message::Forward(batch(member, 1, 1, vec![publish])));
        }
        house.run(Duration::from_millis(2500));
        assert_eq!(house.version(), COMMAND_VERSION);
        house
    }

    /// One call, and whatever the disk and the sound member answer.
    fn hand(&mut self, mut inputs: Vec<Input>) {
        loop {
            let effects = self.replica.handle(self.now, std::mem::take(&mut inputs));
            assert!(effects.fatal.is_none(), "{:?}", effects.fatal);
            inputs = self.follow(effects);
            if inputs.is_empty() {
                return;
            }
        }
    }

    fn follow(&mut self, effects: Effects) -> Vec<Input> {
        for answer in effects.answers {
            if let (Ok(Reply::Wrote(_)), Some(key)) = (answer.result, self.asked.remove(&answer.to))
            {
                self.acknowledged.insert(key.clone(), key);
            }
        }
        self.refused.extend(effects.notices.into_iter().filter_map(|notice| match notice {
            Notice::MessageRefused(_, why) => Some(why),
            _ => None,
        }));
        let persisted = effects.persist.iter().map(|write| Input::Persisted(write.number));
        let said = effects.messages.into_iter().filter(|(to, _)| *to == SOUND);
        let heard = said.filter_map(|(_, message)| match message {
            Message::Raft(message) => agree(message),
            _ => None,
        });
        let heard = heard.map(|message| self.from(SOUND, Message::Raft(message)));
        persisted.chain(heard).collect()
    }

    fn from(&self, from: MemberId, message: Message) -> Input {
        Input::Message { from, message, arrived: self.now }
    }

    fn hear(&mut self, from: MemberId, message: Message) {
        self.hand(vec![self.from(from, message)]);
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now = self.now + Duration::from_millis(10);
            self.hand(vec![Input::Wake]);
        }
    }

    fn asks_to_put(&mut self, key: &Bytes) {
        self.requests += 1;
        let (key, value) = (key.clone(), Some(key.clone()));
        self.asked.insert(self.requests, key.clone());
        let put = Put { key, value, lease: PutLease::Set(None), prev_kv: false };
        let request = Request::anonymous(Operation::Write(Command::Put(put)));
        self.hand(vec![Input::Request(self.requests, request)]);
    }

    /// It is the raft leader, and takes a write.
    fn serves(&mut self) {
        let key = Bytes::from(format!("served at {:?}", self.now));
        for _ in 0..1000 {
            if self.replica.status().leader == Some(ME) {
                self.asks_to_put(&key);
            }
            self.run(Duration::from_millis(20));
            if self.acknowledged.contains_key(&key) {
                return;
            }
        }
        panic!("it does not serve any more: {:?}", self.replica.status());
    }

    fn keeps_what_it_acknowledged(&self) {
        for (key, value) in &self.acknowledged {
            let found = self.replica.state().store.range(&Range::all(Span::One(key.clone())));
            let found = found.unwrap().kvs.first().map(|kv| kv.value.clone());
            assert_eq!(found.as_ref(), Some(value), "{key:?} was acknowledged");
        }
    }

    fn version(&self) -> u32 {
        self.replica.state().cluster_version
    }

    fn term(&self) -> Term {
        self.replica.status().term
    }

    /// A message as a raft leader of the next term would begin it.
    fn lead(&self, kind: RaftKind) -> RaftMessage {
        RaftMessage { term: Term(self.term().0 + 1), ..message(kind) }
    }

    fn refuses(&mut self, message: RaftMessage, why: RefusedMessage) {
        let said = format!("{message:?}");
        self.refused.clear();
        self.hear(HOSTILE, Message::Raft(message));
        assert_eq!(self.refused, [why], "{said}");
    }
}

/// What a member answers that has no log of its own and agrees to everything.
fn agree(said: RaftMessage) -> Option<RaftMessage> {
    let answer = |kind| RaftMessage {
        from: said.to,
        to: said.from,
        term: said.term,
        context: said.context.clone(),
        ..message(kind)
    };
    Some(match said.kind {
        RaftKind::RequestPreVote => answer(RaftKind::RequestPreVoteResponse),
        RaftKind::RequestVote => answer(RaftKind::RequestVoteResponse),
        RaftKind::Heartbeat => answer(RaftKind::HeartbeatResponse),
        RaftKind::Append => {
            let index = said.entries.last().map_or(said.index, |entry| entry.index);
            RaftMessage {
                index,
                context: Bytes::new(),
                commit: said.commit.min(index),
                ..answer(RaftKind::AppendResponse)
            }
        }
        _ => return None,
    })
}

fn message(kind: RaftKind) -> RaftMessage {
    RaftMessage {
        kind,
        from: HOSTILE,
        to: ME,
        term: Term(0),
        log_term: Term(0),
        index: 0,
        commit: 0,
        commit_term: Term(0),
        reject: false,
        reject_hint: 0,
        request_snapshot: 0,
        priority: 0,
        entries: vec![],
        context: Bytes::new(),
        snapshot: None,
    }
}

fn batch(origin: MemberId, boot: u64, sequence: u64, commands: Vec<Command>) -> Bytes {
    let by = tenure_api::Principal::Anonymous;
    let attributed = |command| Attributed { by: by.clone(), command };
    let commands = commands.into_iter().map(attributed).collect();
    Batch { origin, boot, sequence, commands }.to_bytes().into()
}

#[test]
fn hostile_commit_beyond_the_log_is_refused() {
    let mut house = House::new();
    let beat = RaftMessage { commit: 1 << 40, ..house.lead(RaftKind::Heartbeat) };
    house.refuses(beat, RefusedMessage::Index);
    house.hear(HOSTILE, Message::Raft(house.lead(RaftKind::Heartbeat)));
    assert_eq!(house.replica.status().leader, Some(HOSTILE));
    let beat = RaftMessage { term: house.term(), commit: 1 << 40, ..message(RaftKind::Heartbeat) };
    house.refuses(beat, RefusedMessage::Index);
    house.serves();
}

#[test]
fn hostile_numbers_near_the_largest_are_refused() {
    let mut house = House::new();
    let ahead = house.lead(RaftKind::Append);
    for kind in [RaftKind::Append, RaftKind::AppendResponse, RaftKind::RequestVote] {
        let far = RaftMessage { kind, term: Term(u64::MAX), ..ahead.clone() };
        house.refuses(far, RefusedMessage::Term);
        let long = RaftMessage { kind, index: u64::MAX, ..ahead.clone() };
        house.refuses(long, RefusedMessage::Index);
        house.refuses(RaftMessage { kind, ..message(kind) }, RefusedMessage::Term);
    }
    let more =
        RaftMessage { term: house.term(), index: 1 << 40, ..message(RaftKind::AppendResponse) };
    house.refuses(more, RefusedMessage::Index);
    let hint = RaftMessage { reject: true, reject_hint: u64::MAX, ..ahead.clone() };
    house.refuses(RaftMessage { kind: RaftKind::AppendResponse, ..hint }, RefusedMessage::Index);
    let ages = RaftMessage { index: u64::MAX, ..house.lead(RaftKind::Heartbeat) };
    house.refuses(ages, RefusedMessage::Index);
    house.serves();
}

#[test]
fn hostile_entries_with_a_gap_are_refused() {
    let mut house = House::new();
    let entry =
        |index| Entry { term: Term(1), index, kind: EntryKind::Commands, data: Bytes::new() };
    let gap = RaftMessage {
        index: 1,
        log_term: Term(1),
        entries: vec![entry(2), entry(4)],
        ..house.lead(RaftKind::Append)
    };
    house.refuses(gap, RefusedMessage::Entries);
    house.serves();
}

#[test]
fn hostile_second_raft_leader_of_a_term_is_refused() {
    let mut house = House::new();
    for kind in [RaftKind::Append, RaftKind::Heartbeat] {
        let second = RaftMessage { term: house.term(), ..message(kind) };
        house.refuses(second, RefusedMessage::NotLeader);
    }
    assert_eq!(house.replica.status().leader, Some(ME));
}

#[test]
fn hostile_snapshot_without_its_state_is_refused() {
    let mut house = House::new();
    let mark = SnapshotMark {
        index: 1000,
        term: Term(1),
        voters: vec![ME, HOSTILE],
        ..SnapshotMark::default()
    };
    let bare = RaftMessage { snapshot: Some(mark.clone()), ..house.lead(RaftKind::Snapshot) };
    house.refuses(bare.clone(), RefusedMessage::OutOfPlace);
    // With a state that knows less than we do, or other members.
    let young = State::new(house.members.clone());
    let doubled = SnapshotMark { voters: vec![ME, ME], ..mark };
    let other = house.replica.state().clone();
    for (snapshot, state) in [(bare.snapshot.clone(), young), (Some(doubled), other)] {
        house.refused.clear();
        let message = RaftMessage { snapshot, ..bare.clone() };
        house.hand(vec![Input::SnapshotArrived(message, Box::new(state))]);
        assert_eq!(house.refused, [RefusedMessage::Snapshot]);
    }
    house.serves();
    house.keeps_what_it_acknowledged();
}

#[test]
fn hostile_member_of_no_configuration_is_not_heard() {
    let mut house = House::new();
    let stranger = MemberId(9);
    for kind in [RaftKind::AppendResponse, RaftKind::HeartbeatResponse, RaftKind::ReadIndex] {
        let term = if kind == RaftKind::ReadIndex { Term(0) } else { house.term() };
        let said = RaftMessage { from: stranger, term, ..message(kind) };
        house.refused.clear();
        house.hear(stranger, Message::Raft(said));
        assert_eq!(house.refused, [RefusedMessage::NotMember], "{kind:?}");
    }
    house.hear(stranger, Message::Forward(batch(stranger, 1, 1, vec![])));
    house.hear(stranger, Message::Audited(1, 1));
    assert_eq!(house.refused.len(), 3);
}

#[test]
fn hostile_batch_leaves_no_harm_behind() {
    let mut house = House::new();
    let version = house.version();
    let raise = Command::ClusterVersion(u32::MAX);
    house.hear(HOSTILE, Message::Forward(batch(HOSTILE, 1, 2, vec![raise])));
    house.run(Duration::from_millis(50));
    assert_eq!(house.version(), version, "no member can apply that");
    assert_eq!(house.replica.state().origins[&HOSTILE].sequence, 2, "the batch counts");
    let expiries = vec![Expiry { id: tenure_api::LeaseId(1), renewed_at: 0 }];
    let publish = Command::Publish {
        member: SOUND,
        name: "another".into(),
        client_urls: vec![],
        command_version: 1,
        directory: 4711,
    };
    let expire = Command::LeaseExpire(house.term(), expiries);
    for command in [publish, expire, Command::LetGo(SOUND)] {
        house.refused.clear();
        house.hear(HOSTILE, Message::Forward(batch(HOSTILE, 1, 3, vec![command])));
        assert_eq!(house.refused, [RefusedMessage::Batch]);
    }
    assert_eq!(house.replica.state().directories[&SOUND], SOUND.0);
}

/// What happens in a run.
#[derive(Clone, Debug)]
enum Event {
    Time(u64),
    Put(u8),
    Said(Box<Said>),
    Forwarded(u64, u64, u32),
    Audited(u64, u64),
    Arrived(Box<Said>),
    Lost,
    Connected,
}

/// A message whose numbers are counted from those of the member.
#[derive(Clone, Debug)]
struct Said {
    kind: RaftKind,
    from: MemberId,
    term: Number,
    log_term: Number,
    index: Number,
    commit: Number,
    commit_term: Number,
    reject: bool,
    reject_hint: Number,
    request_snapshot: u64,
    priority: i64,
    entries: Vec<(Number, Number)>,
    context: Vec<u8>,
    mark: Option<MarkSaid>,
}

/// Index, term, and three lists of members.
type MarkSaid = (Number, Number, Vec<u64>, Vec<u64>, Vec<u64>);

#[derive(Clone, Copy, Debug)]
enum Number {
    Near(i64),
    Any(u64),
}

impl Number {
    fn of(self, base: u64) -> u64 {
        match self {
            Number::Near(by) => base.saturating_add_signed(by),
            Number::Any(number) => number,
        }
    }
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        6 => (-2i64..4).prop_map(Number::Near),
        1 => select(vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 62, 1 << 32]).prop_map(Number::Any),
        1 => any::<u64>().prop_map(Number::Any),
    ]
}

const KINDS: [RaftKind; 13] = [
    RaftKind::Append,
    RaftKind::AppendResponse,
    RaftKind::RequestVote,
    RaftKind::RequestVoteResponse,
    RaftKind::Snapshot,
    RaftKind::Heartbeat,
    RaftKind::HeartbeatResponse,
    RaftKind::TransferLeader,
    RaftKind::TimeoutNow,
    RaftKind::ReadIndex,
    RaftKind::ReadIndexResponse,
    RaftKind::RequestPreVote,
    RaftKind::RequestPreVoteResponse,
];

fn said() -> impl Strategy<Value = Said> {
    let ids = || vec(0u64..5, 0..4);
    let context = prop_oneof![
        Just(vec![]),
        Just(b"notice".to_vec()),
        Just(b"vouch".to_vec()),
        Just(b"CampaignTransfer".to_vec()),
        vec(any::<u8>(), 0..20),
    ];
    let mark = option::weighted(0.2, (number(), number(), ids(), ids(), ids()));
    let kind = select(KINDS.to_vec());
    let from = select(vec![HOSTILE, HOSTILE, HOSTILE, MemberId(9), ME]);
    let rarely = |value| prop_oneof![9 => Just(0), 1 => Just(value)];
    (
        (kind, from, number(), number(), number(), number(), number()),
        (prop::bool::weighted(0.2), number(), rarely(7u64)),
        prop_oneof![9 => Just(0i64), 1 => any::<i64>()],
        vec((number(), number()), 0..3),
        context,
        mark,
    )
        .prop_map(
            |(head, (reject, reject_hint, request_snapshot), priority, entries, context, mark)| {
                let (kind, from, term, log_term, index, commit, commit_term) = head;
                Said {
                    kind,
                    from,
                    term,
                    log_term,
                    index,
                    commit,
                    commit_term,
                    reject,
                    reject_hint,
                    request_snapshot,
                    priority,
                    entries,
                    context,
                    mark,
                }
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    let large = || prop_oneof![4 => 0u64..4, 1 => Just(u64::MAX), 1 => any::<u64>()];
    prop_oneof![
        2 => (1u64..700).prop_map(Event::Time),
        2 => any::<u8>().prop_map(Event::Put),
        12 => said().prop_map(|said| Event::Said(Box::new(said))),
        1 => (large(), large(), any::<u32>())
            .prop_map(|(boot, sequence, version)| Event::Forwarded(boot, sequence, version)),
        1 => (large(), any::<u64>()).prop_map(|(index, digest)| Event::Audited(index, digest)),
        1 => said().prop_map(|said| Event::Arrived(Box::new(said))),
        1 => Just(Event::Lost),
        1 => Just(Event::Connected),
    ]
}

impl House {
    fn spoken(&self, said: Said) -> RaftMessage {
        let status = self.replica.status();
        let (term, last) = (status.term.0, status.applied);
        let index = said.index.of(last);
        let log_term = Term(said.log_term.of(term));
        let mut follows = index;
        let entries = said.entries.into_iter().map(|(index, term_by)| {
            // Mostly one after the other.
            follows = match index {
                Number::Near(_) => follows.wrapping_add(1),
                Number::Any(index) => index,
            };
            let term = match term_by {
                Number::Near(by) => log_term.0.saturating_add(by.unsigned_abs()),
                Number::Any(term) => term,
            };
            let data = Bytes::new();
            Entry { term: Term(term), index: follows, kind: EntryKind::Commands, data }
        });
        let members = |ids: Vec<u64>| ids.into_iter().map(MemberId).collect();
        RaftMessage {
            kind: said.kind,
            from: said.from,
            to: ME,
            term: Term(said.term.of(term)),
            log_term,
            index,
            commit: said.commit.of(last),
            commit_term: Term(said.commit_term.of(term)),
            reject: said.reject,
            reject_hint: said.reject_hint.of(last),
            request_snapshot: said.request_snapshot,
            priority: said.priority,
            entries: entries.collect(),
            context: said.context.into(),
            snapshot: said.mark.map(|(index, term_by, voters, learners, outgoing)| SnapshotMark {
                index: index.of(last),
                term: Term(term_by.of(term)),
                voters: members(voters),
                learners: members(learners),
                outgoing: members(outgoing),
            }),
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Time(ms) => self.run(Duration::from_millis(ms)),
            Event::Put(key) => self.asks_to_put(&Bytes::from(format!("key {key}"))),
            Event::Said(said) => {
                let message = self.spoken(*said);
                self.hear(message.from, Message::Raft(message));
            }
            Event::Forwarded(boot, sequence, version) => {
                let commands = vec![Command::ClusterVersion(version)];
                let bytes = batch(HOSTILE, boot, sequence, commands);
                self.hear(HOSTILE, Message::Forward(bytes));
            }
            Event::Audited(index, digest) => {
                self.hear(HOSTILE, Message::Audited(index, digest));
            }
            Event::Arrived(said) => {
                let message = self.spoken(*said);
                // The oldest state there is: taken over, it would be a loss.
                let state = State::new(self.members.clone());
                self.hand(vec![Input::SnapshotArrived(message, Box::new(state))]);
            }
            Event::Lost => self.hand(vec![Input::Lost(HOSTILE)]),
            Event::Connected => self.hand(vec![Input::Connected(HOSTILE)]),
        }
    }
}

fn hold_against(cases: u32) {
    hold(cases, vec(event(), 0..40), |events| {
        let mut house = House::new();
        for event in events {
            house.happens(event);
            house.keeps_what_it_acknowledged();
        }
        // A term that was inflated is no harm: the sound members find one another in the next.
        house.run(Duration::from_secs(2));
        house.serves();
        house.keeps_what_it_acknowledged();
        Ok(())
    });
}

#[test]
fn hostile_messages_neither_end_a_member_nor_undo_what_it_acknowledged() {
    hold_against(300);
}

/// The test above can fail.
#[test]
#[should_panic]
fn hostile_messages_end_a_member_that_does_not_check_them() {
    let _planted = Canary::UncheckedMessages.plant();
    hold_against(300);
}
