//! The language of the scripts. Members are called m1, m2 … Each line is one command; its outcome, and what happened meanwhile,
//! is printed below.
//!
//! ```text
//! cluster members=N                  start them and wait until one leads
//! put M KEY VALUE [lease=N]          get M KEY [stale]          del M KEY          compact M REV
//! fill M N                           write so many keys
//! grant M LEASE ttl=SECS             renew M LEASE              revoke M LEASE     left M LEASE
//! watch M NAME SPAN [from=REV] [reads=nothing]
//!                                    cancel NAME                progress NAME      drain NAME
//! crash M…   start M…   isolate M    cut M M    heal     pause M MS    stall M MS
//! move M to=M   hand-over M          run MS     members          wait-leader
//! add M NEW [learner]                promote M MEMBER           remove M MEMBER    update M MEMBER URL
//! ```
//! A SPAN is a key, or a prefix followed by `*`. Times are rounded, because they are not promised.

use std::{cell::RefCell, collections::BTreeMap, error::Error, fmt::Write as _, rc::Rc};

use bytes::Bytes;
use goldenscript::{Argument, Command, Runner};
use tenure_api::{
    DeleteRange, EventKind, Failure, LeaseId, MemberId, Principal, Put, Range, Revision, Span,
    op::PutLease,
};
use tenure_replica::{
    Consistency, Notice, Operation, Outcome, RaftRole, Read, Reply,
    command::{Command as Write, MemberChange},
    watch::{Interest, WatchCreate, WatchInput, WatchNews, WatchStream},
};

use tenure_lab::{
    cluster::{
        World,
        clients::SimClient,
        member::{MemberNumber, MembershipState, peer_url},
    },
    engine::{ms, us},
};

type Answer<T> = Result<T, Box<dyn Error>>;

pub struct ScriptedCluster {
    world: World,
    /// What watchers received since the last line.
    heard: Rc<RefCell<Vec<String>>>,
    watches: BTreeMap<String, (WatchStream, MemberNumber)>,
    notices_shown: usize,
}

/// A client that records what its stream receives.
struct Listener {
    name: String,
    heard: Rc<RefCell<Vec<String>>>,
    /// Whether it acknowledges everything at once.
    reads: bool,
    at: MemberNumber,
}

impl ScriptedCluster {
    pub fn new() -> ScriptedCluster {
        let heard = Rc::new(RefCell::new(vec![]));
        ScriptedCluster {
            world: World::new(1, 1),
            heard,
            watches: BTreeMap::new(),
            notices_shown: 0,
        }
    }

    fn cluster(&mut self, members: u64) -> String {
        let mut world = World::with(1, members, |config| config.watch.stream_bytes_max = 150);
        world.net.links.conditions.delay = (us(200), us(200));
        for number in world.numbers() {
            world.member_mut(number).disk.flush = (us(300), us(300));
            world.member_mut(number).clock = tenure_lab::engine::SimClock::default();
            world.start(number);
        }
        world.must_lead_within(ms(2000));
        world.run(ms(100));
        self.world = world;
        self.notices_shown = self.world.notices.len();
        self.members()
    }

    fn members(&self) -> String {
        let mut out = String::new();
        for (number, member) in &self.world.members {
            let Some(process) = &member.process else {
                let how = if member.membership == MembershipState::Gone { "gone" } else { "down" };
                let _ = writeln!(out, "m{number} is {how}");
                continue;
            };
            let status = process.replica.status();
            let role = match (status.role, status.leader) {
                (RaftRole::Leader, _) => "leads".into(),
                (_, Some(leader)) => format!("follows m{leader}"),
                (_, None) => "knows no leader".into(),
            };
            let (term, revision) = (status.term, status.revision);
            let learner = if status.is_learner { ", a learner" } else { "" };
            let _ = writeln!(out, "m{number} {role} in term {term}, rev {revision}{learner}");
        }
        out
    }

    fn send_request(&mut self, member: MemberNumber, request: Operation) -> String {
        match self.world.probe(member, request) {
            Ok(reply) => show_reply(&reply),
            Err(failure) => show_failure(failure),
        }
    }

    fn write(&mut self, member: MemberNumber, command: Write) -> String {
        let answer = self.send_request(member, Operation::Write(command));
        let revision = self.world.invariants.linearizable.horizon;
        if answer == "done\n" { format!("done, rev {revision}\n") } else { answer }
    }

    fn watch(&mut self, args: &[Argument]) -> Answer<()> {
        let (at, name) = (member(&args[0])?, args[1].value.clone());
        let span = span(&args[2].value);
        let start = argument(args, "from").map(|from| from.parse().map(Revision)).transpose()?;
        let reads = argument(args, "reads").as_deref() != Some("nothing");
        let listener = Listener { name: name.clone(), heard: self.heard.clone(), reads, at };
        let client = self.world.clients.len();
        self.world.add_client_after(ms(0), listener);
        let stream = self.world.open_stream(client, at).ok_or("its process does not run")?;
        let interest = Interest { span, no_put: false, no_delete: false, prev_kv: false };
        let by = Principal::Anonymous;
        let create = WatchCreate { by, id: Some(0), interest, start, progress_notify: false };
        self.world.watch(at, WatchInput::Create(stream, create));
        self.watches.insert(name, (stream, at));
        self.world.run(ms(1));
        Ok(())
    }

    /// What happened since the last line, besides the answer.
    fn news(&mut self) -> String {
        let mut out = String::new();
        let new = &self.world.notices[self.notices_shown..];
        // All members notice the end of a change; once is enough.
        let done = new.iter().find(|(_, _, notice)| matches!(notice, Notice::ChangeDone(_)));
        let first = done.map(|(_, member, _)| *member);
        for (_, member, notice) in new {
            match notice {
                Notice::Leader { leader: Some(leader), term } if leader.0 == *member => {
                    let _ = writeln!(out, "m{member} leads in term {term}");
                }
                Notice::LeaderLost(leader) => {
                    let _ =
                        writeln!(out, "m{member} lost its connection with the leader m{leader}");
                }
                Notice::DiskStalled => {
                    let _ = writeln!(out, "m{member}: its disk stands still, it hands over");
                }
                Notice::Paused(_) => {
                    let _ = writeln!(out, "m{member} notices that it stood still");
                }
                Notice::SnapshotInstalled(_) => {
                    let _ = writeln!(out, "m{member} took over a snapshot");
                }
                Notice::LeasesExpired(count) => {
                    let _ = writeln!(out, "m{member} finds that {count} lease ran out");
                }
                Notice::SpaceLow { .. } => {
                    let _ = writeln!(out, "m{member} warns that space is low");
                }
                Notice::AlarmRaised(alarm) => {
                    let _ =
                        writeln!(out, "m{member} hears of {:?} at m{}", alarm.kind, alarm.member);
                }
                Notice::AlarmLowered(alarm) => {
                    let (kind, place) = (alarm.kind, alarm.member);
                    let _ = writeln!(out, "m{member} hears that {kind:?} at m{place} is over");
                }
                Notice::Differs { members, .. } => {
                    let _ = writeln!(out, "m{member} finds that {members:?} differ");
                }
                Notice::ChangeDone(change) if Some(*member) == first => {
                    let _ = writeln!(out, "done: {}", show_change(change));
                }
                Notice::CaughtUp(_) => {
                    let _ = writeln!(out, "m{member} has caught up");
                }
                Notice::MessageRefused(from, why) => {
                    let _ = writeln!(out, "m{member} refuses a message of m{from}: {why}");
                }
                Notice::ChangeBegun(_) | Notice::ChangeDone(_) => {}
                Notice::Leader { .. } | Notice::ClusterVersion(_) | Notice::CatchingUp { .. } => {}
            }
        }
        self.notices_shown = self.world.notices.len();
        for line in self.heard.borrow_mut().drain(..) {
            let _ = writeln!(out, "{line}");
        }
        out
    }
}

impl Runner for ScriptedCluster {
    fn run(&mut self, command: &Command) -> Answer<String> {
        let args = &command.args[..];
        let mut out = String::new();
        match command.name.as_str() {
            "cluster" => {
                let members = argument(args, "members").ok_or("how many members?")?;
                out = self.cluster(members.parse()?);
            }
            "put" => {
                let lease = argument(args, "lease").map(|lease| lease.parse().map(LeaseId));
                out = self.write(
                    member(&args[0])?,
                    Write::Put(Put {
                        key: key(&args[1]),
                        value: Some(key(&args[2])),
                        lease: PutLease::Set(lease.transpose()?),
                        prev_kv: false,
                    }),
                );
            }
            "fill" => {
                for number in 0..args[1].value.parse()? {
                    let put = Put {
                        key: format!("fill/{number}").into(),
                        value: Some(Bytes::from(vec![b'x'; 64])),
                        lease: PutLease::Set(None),
                        prev_kv: false,
                    };
                    out = self.write(member(&args[0])?, Write::Put(put));
                }
            }
            "get" => {
                let stale = args.iter().any(|arg| arg.value == "stale");
                let consistency =
                    if stale { Consistency::Serializable } else { Consistency::Linearizable };
                let range = Range::all(span(&args[1].value));
                out = self.send_request(
                    member(&args[0])?,
                    Operation::Read(Read::Range(range), consistency),
                );
            }
            "del" => {
                let delete = DeleteRange { span: span(&args[1].value), prev_kv: false };
                out = self.write(member(&args[0])?, Write::DeleteRange(delete));
            }
            "compact" => {
                let revision = Revision(args[1].value.parse()?);
                out = self.write(member(&args[0])?, Write::Compact(revision));
            }
            "grant" => {
                let ttl_secs = argument(args, "ttl").ok_or("for how long?")?.parse()?;
                let grant = Write::LeaseGrant { id: lease(&args[1])?, ttl_secs };
                out = self.send_request(member(&args[0])?, Operation::Write(grant));
            }
            "renew" => {
                let renew = Write::LeaseRenew(lease(&args[1])?);
                out = self.send_request(member(&args[0])?, Operation::Write(renew));
            }
            "revoke" => {
                let revoke = Write::LeaseRevoke(lease(&args[1])?);
                out = self.write(member(&args[0])?, revoke);
            }
            "left" => {
                let read = Read::Lease(lease(&args[1])?, true);
                let request = Operation::Read(read, Consistency::Linearizable);
                out = self.send_request(member(&args[0])?, request);
            }
            "watch" => self.watch(args)?,
            "cancel" | "progress" | "drain" => {
                let (stream, at) =
                    *self.watches.get(&args[0].value).ok_or("there is no such watch")?;
                self.world.watch(
                    at,
                    match command.name.as_str() {
                        "cancel" => WatchInput::Cancel(stream, 0),
                        "progress" => WatchInput::Progress(stream),
                        _ => WatchInput::Drained(stream, usize::MAX),
                    },
                );
                self.world.run(ms(5));
            }
            "crash" => {
                for arg in args {
                    self.world.crash(member(arg)?);
                }
                self.world.run(ms(200));
            }
            "start" => {
                for arg in args {
                    self.world.start(member(arg)?);
                }
                self.world.run(ms(500));
            }
            "isolate" => self.world.isolate(member(&args[0])?),
            "cut" => {
                let (a, b) = (member(&args[0])?, member(&args[1])?);
                self.world.net.links.cut(a, b);
                self.world.net.links.cut(b, a);
            }
            "heal" => {
                self.world.net.links.mend_all();
                self.world.run(ms(300));
            }
            "pause" => {
                let length = ms(args[1].value.parse()?);
                self.world.pause(member(&args[0])?, length);
                self.world.run(length + ms(50));
            }
            "stall" => self.world.stall_disk(member(&args[0])?, ms(args[1].value.parse()?)),
            "move" => {
                let to = argument(args, "to").ok_or("to which member?")?;
                let to = to.trim_start_matches('m').parse().map(MemberId)?;
                out = self.send_request(member(&args[0])?, Operation::MoveLeader(to));
            }
            "add" | "promote" | "remove" | "update" => {
                let (at, about) = (member(&args[0])?, member(&args[1])?);
                let id = MemberId(about);
                let change = match command.name.as_str() {
                    "add" => {
                        while !self.world.members.contains_key(&about) {
                            self.world.new_member();
                        }
                        let is_learner = args.iter().any(|arg| arg.value == "learner");
                        MemberChange::Add { id, peer_urls: vec![peer_url(about)], is_learner }
                    }
                    "promote" => MemberChange::Promote(id),
                    "remove" => MemberChange::Remove(id),
                    _ => MemberChange::Update { id, peer_urls: vec![args[2].value.clone()] },
                };
                out = self.send_request(at, Operation::Write(Write::Members(change)));
            }
            "hand-over" => {
                self.world.hand_over(member(&args[0])?);
                self.world.run(ms(100));
            }
            "run" => self.world.run(ms(args[0].value.parse()?)),
            "wait-leader" => {
                let took = self.world.must_lead_within(ms(3000));
                writeln!(out, "after about {:.1} s", took.as_secs_f64())?;
            }
            "members" => out = self.members(),
            other => return Err(format!("there is no command {other}").into()),
        }
        // Its consequences may take a moment to show.
        self.world.run(ms(2));
        Ok(out + &self.news())
    }
}

impl SimClient for Listener {
    fn turn(&mut self, _me: usize, _world: &mut World) {}

    fn watch_news(&mut self, _me: usize, world: &mut World, stream: WatchStream, news: &WatchNews) {
        let line = match news {
            WatchNews::Created { revision, .. } => format!("stands at rev {revision}"),
            WatchNews::Refused { why, .. } => format!("refused: {why}"),
            WatchNews::Cancelled { compacted: Some(revision), .. } => {
                format!("cancelled: compacted at rev {revision}")
            }
            WatchNews::Cancelled { .. } => "cancelled".into(),
            WatchNews::Progress { revision, .. } => {
                format!("has heard everything up to {revision}")
            }
            WatchNews::Events { events, cost, .. } => {
                if self.reads {
                    world.watch(self.at, WatchInput::Drained(stream, *cost));
                }
                let traced: Vec<String> = events.iter().map(show_event).collect();
                format!("hears {}", traced.join(", "))
            }
        };
        self.heard.borrow_mut().push(format!("{} {line}", self.name));
    }
}

fn show_event(event: &tenure_api::Event) -> String {
    let (key, at) = (text(&event.kv.key), event.kv.mod_revision);
    match event.kind {
        EventKind::Put => format!("{key}={} at {at}", text(&event.kv.value)),
        EventKind::Delete => format!("{key} deleted at {at}"),
    }
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Range(found) => {
            let mut out = String::new();
            for kv in &found.kvs {
                let (key, value) = (text(&kv.key), text(&kv.value));
                let _ = writeln!(out, "{key}={value} at rev {}", kv.mod_revision);
            }
            if out.is_empty() { "nothing\n".into() } else { out }
        }
        Reply::Lease(None) => "no such lease\n".into(),
        Reply::Lease(Some(lease)) => {
            let keys: Vec<_> = lease.keys.iter().map(text).collect();
            format!("at least {} s left, keys: {}\n", lease.remaining_secs, keys.join(" "))
        }
        Reply::Wrote(Outcome::Members(members)) => {
            let show = |member: &tenure_api::Member| {
                let learner = if member.is_learner { " (learner)" } else { "" };
                format!("m{}{learner}", member.id)
            };
            let members: Vec<_> = members.iter().map(show).collect();
            format!("members: {}\n", members.join(" "))
        }
        Reply::Wrote(Outcome::Lease(lease)) => format!("lives {} s from now\n", lease.ttl_secs),
        _ => "done\n".into(),
    }
}

fn show_change(change: &MemberChange) -> String {
    match change {
        MemberChange::Add { id, is_learner: true, .. } => format!("m{id} learns"),
        MemberChange::Add { id, .. } | MemberChange::Promote(id) => format!("m{id} votes"),
        MemberChange::Update { id, .. } => format!("m{id} moved"),
        MemberChange::Invite { id, .. } => format!("m{id} is invited"),
        MemberChange::Remove(id) => format!("m{id} is removed"),
    }
}

fn show_failure(failure: Failure) -> String {
    format!("refused: {failure}\n")
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn key(argument: &Argument) -> Bytes {
    argument.value.clone().into()
}

fn member(argument: &Argument) -> Answer<MemberNumber> {
    Ok(argument.value.trim_start_matches('m').parse()?)
}

fn lease(argument: &Argument) -> Answer<LeaseId> {
    Ok(LeaseId(argument.value.parse()?))
}

fn span(text: &str) -> Span {
    match text.strip_suffix('*') {
        Some(prefix) => Span::prefix(Bytes::copy_from_slice(prefix.as_bytes())),
        None => Span::One(Bytes::copy_from_slice(text.as_bytes())),
    }
}

fn argument(args: &[Argument], name: &str) -> Option<String> {
    args.iter().find(|arg| arg.key.as_deref() == Some(name)).map(|arg| arg.value.clone())
}
