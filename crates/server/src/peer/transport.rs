//! The way to all other members.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenure_api::{ClusterId, Member, MemberId};
use tenure_replica::{Message, RaftMessage, Snapshot, State};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::{
    handshake::{Hello, PROTOCOL_VERSION, Purpose, Refusal},
    incoming,
    link::{Link, lock},
    outgoing,
    roster::{Roster, ask},
    security::PeerSecurity,
    transfer,
};
use crate::{called::called, disk::snapshot::ReceivedSnapshot};

/// Pause before the members are asked again who belongs to the cluster, whoever gives cause.
const ASK_PAUSE: Duration = Duration::from_millis(250);

/// This member and the others.
#[derive(Debug)]
pub struct TransportConfig {
    /// This member.
    pub me: MemberId,
    /// Its cluster; others are refused.
    pub cluster_id: ClusterId,
    /// Which life of this member this is.
    pub boot: u64,
    /// The number of its data directory.
    pub directory: u64,
    /// The highest command version that it can apply.
    pub command_version: u32,
    /// Where others call.
    pub listener: TcpListener,
    /// The members to call, and their addresses (`host:port`).
    pub peers: Vec<(MemberId, String)>,
    /// Where arriving snapshots go.
    pub snapshots: PathBuf,
    /// What members must have to be spoken to.
    pub security: PeerSecurity,
}

/// What happens between members.
#[derive(Debug)]
pub enum PeerEvent {
    /// A member said something.
    Message {
        /// The sender.
        from: MemberId,
        /// What.
        message: Message,
        /// When it was read.
        arrived: Instant,
    },
    /// Messages to this member are sent: a connection to it was made, or it called again after a loss that
    /// left ours standing.
    Connected {
        /// Which.
        member: MemberId,
        /// The highest command version that it can apply.
        command_version: u32,
    },
    /// What the member spoke on ended, or all that stood: its process is most likely gone. Everything it said
    /// before was told before. If only one direction broke, [`PeerEvent::Connected`] follows when it stands again.
    Lost(MemberId),
    /// A member says that the cluster knows us with another data directory.
    Disowned {
        /// The member that says so.
        by: MemberId,
    },
    /// A member says that we were removed from the cluster.
    Removed {
        /// The member that says so.
        by: MemberId,
    },
    /// A member on the replicated list was asked for the cluster's members, and some of them are not known here.
    Heard(Vec<Member>),
    /// A snapshot arrived; it is sound, and its file is durable, but not in its place.
    SnapshotReceived {
        /// The sender.
        from: MemberId,
        /// The raft message that goes with it.
        message: RaftMessage,
        /// What it holds.
        state: Box<State>,
        /// Its file.
        file: ReceivedSnapshot,
    },
    /// A snapshot was sent.
    SnapshotSent {
        /// The receiver.
        to: MemberId,
        /// Whether the receiver has it, durably.
        ok: bool,
    },
}

/// What has gone to and come from one member, snapshots not counted.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Which.
    pub member: MemberId,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Messages dropped.
    pub dropped: u64,
}

/// Connections to all other members. Dropping it closes them.
#[derive(Debug)]
pub struct Transport {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
    callers: Mutex<BTreeMap<MemberId, AbortHandle>>,
}

/// What all tasks need to know.
#[derive(Debug)]
pub(super) struct Shared {
    me: MemberId,
    cluster_id: ClusterId,
    boot: u64,
    directory: u64,
    command_version: u32,
    pub(super) security: PeerSecurity,
    pub(super) snapshots: PathBuf,
    pub(super) events: mpsc::UnboundedSender<PeerEvent>,
    links: Mutex<BTreeMap<MemberId, Arc<Link>>>,
    known: Mutex<Known>,
    /// Those of the links that are not on the replicated list.
    off_list: Mutex<BTreeSet<MemberId>>,
    is_asking: AtomicBool,
    /// Counts the snapshots that arrived.
    pub(super) received: AtomicU64,
}

/// What the cluster has agreed on about its members, as far as this one has heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The members.
    pub members: Vec<Member>,
    /// Those that were members once. They are told so, and nothing else.
    pub removed: BTreeSet<MemberId>,
    /// The data directory of each member. One that comes with another one has forgotten its votes,
    /// and is refused.
    pub directories: BTreeMap<MemberId, u64>,
    /// The command version in force. A member that cannot apply it is refused.
    pub cluster_version: u32,
}

impl Transport {
    /// Starts to listen and to call.
    pub fn start(config: TransportConfig, events: mpsc::UnboundedSender<PeerEvent>) -> Transport {
        let shared = Arc::new(Shared {
            me: config.me,
            cluster_id: config.cluster_id,
            boot: config.boot,
            directory: config.directory,
            command_version: config.command_version,
            security: config.security,
            snapshots: config.snapshots,
            events,
            links: Mutex::default(),
            known: Mutex::default(),
            off_list: Mutex::default(),
            is_asking: AtomicBool::new(false),
            received: AtomicU64::new(0),
        });
        let transport = Transport {
            shared: shared.clone(),
            tasks: Mutex::default(),
            callers: Mutex::default(),
        };
        transport.set_peers(config.peers, BTreeSet::new());
        lock(&transport.tasks).spawn(incoming::accept(shared, config.listener));
        transport
    }

    /// Queues a message and never blocks. Answers `false` if it was dropped, because the member is
    /// not connected or its queue is full.
    pub fn send(&self, to: MemberId, message: &Message) -> bool {
        let links = lock(&self.shared.links);
        links.get(&to).is_some_and(|link| link.send(message))
    }

    /// Sends a snapshot on a connection of its own; [`PeerEvent::SnapshotSent`] tells how it went.
    pub fn send_snapshot(&self, message: RaftMessage, snapshot: Snapshot) {
        let to = message.to;
        let Some(link) = self.shared.link(to) else {
            self.shared.tell(PeerEvent::SnapshotSent { to, ok: false });
            return;
        };
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(transfer::send(self.shared.clone(), link, message, snapshot));
    }

    /// Says what the cluster knows of its members.
    pub fn know(&self, known: Known) {
        for link in lock(&self.shared.links).values() {
            let Some(directory) = known.directories.get(&link.id) else { continue };
            let mut presence = link.presence();
            if presence.expect_directory(*directory) {
                self.shared.tell(PeerEvent::Lost(link.id));
            }
        }
        *lock(&self.shared.known) = known;
    }

    /// Replaces the list of members to call and to listen to. Connections to those that stay at
    /// their address are kept. Those `off_list` are known from other members only, or are leaving: they may speak, but not
    /// say that this member was removed.
    pub fn set_peers(&self, peers: Vec<(MemberId, String)>, off_list: BTreeSet<MemberId>) {
        *lock(&self.shared.off_list) = off_list;
        let mut links = lock(&self.shared.links);
        let mut callers = lock(&self.callers);
        let stays =
            |link: &Link| peers.iter().any(|(id, at)| *id == link.id && *at == link.address);
        links.retain(|_, link| {
            let kept = stays(link);
            if !kept {
                link.presence().dismiss();
            }
            kept
        });
        callers.retain(|id, caller| {
            let kept = links.contains_key(id);
            if !kept {
                caller.abort();
            }
            kept
        });
        for (id, address) in peers {
            if id != self.shared.me && !links.contains_key(&id) {
                let link = Arc::new(Link::new(id, address));
                links.insert(id, link.clone());
                let call = outgoing::keep_calling(self.shared.clone(), link);
                callers.insert(id, lock(&self.tasks).spawn(call));
            }
        }
    }

    /// What has gone to and come from each member so far.
    pub fn traffic(&self) -> Vec<Traffic> {
        let links = lock(&self.shared.links);
        let traffic = links.values().map(|link| Traffic {
            member: link.id,
            sent_bytes: link.sent_bytes.load(Ordering::Relaxed),
            received_bytes: link.received_bytes.load(Ordering::Relaxed),
            dropped: link.dropped(),
        });
        traffic.collect()
    }

    /// How many messages to this member were dropped so far.
    pub fn dropped(&self, to: MemberId) -> u64 {
        self.shared.link(to).map_or(0, |link| link.dropped())
    }
}

impl Shared {
    /// A member by its name and id, for lines of the log.
    pub(super) fn called(&self, id: MemberId) -> String {
        called(id, &lock(&self.known).members)
    }

    /// A member's name; empty if it has none, or is not known.
    pub(super) fn name_of(&self, id: MemberId) -> String {
        let known = lock(&self.known);
        let member = known.members.iter().find(|member| member.id == id);
        member.map_or(String::new(), |member| member.name.clone())
    }

    pub(super) fn tell(&self, event: PeerEvent) {
        // If the receiver is gone, the member is stopping.
        let _ = self.events.send(event);
    }

    pub(super) fn link(&self, id: MemberId) -> Option<Arc<Link>> {
        lock(&self.links).get(&id).cloned()
    }

    /// Our introduction to a member.
    pub(super) fn hello(&self, to: MemberId, purpose: Purpose) -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            purpose,
            cluster_id: self.cluster_id,
            from: self.me,
            to,
            boot: self.boot,
            directory: self.directory,
            command_version: self.command_version,
        }
    }

    /// Checks an introduction, of a caller or of one that we called.
    ///
    /// A refusal tells the other side about *us* where the fault may be on either side.
    pub(super) fn check(&self, hello: &Hello) -> Result<Arc<Link>, Refusal> {
        if hello.protocol != PROTOCOL_VERSION {
            return Err(Refusal::Protocol(PROTOCOL_VERSION));
        }
        if hello.cluster_id != self.cluster_id {
            return Err(Refusal::OtherCluster(self.cluster_id));
        }
        if hello.to != self.me {
            return Err(Refusal::OtherMember(self.me));
        }
        let known = lock(&self.known);
        if known.removed.contains(&hello.from) {
            return Err(Refusal::Removed(hello.from));
        }
        if hello.command_version < known.cluster_version {
            return Err(Refusal::TooOld(known.cluster_version));
        }
        let link = self.link(hello.from).ok_or(Refusal::UnknownMember(hello.from))?;
        match known.directories.get(&hello.from) {
            Some(known) if *known != hello.directory => Err(Refusal::ReplacedDirectory),
            _ => Ok(link),
        }
    }

    /// Whether this member is neither on the replicated list nor, before there is one, in the settings.
    pub(super) fn is_off_list(&self, id: MemberId) -> bool {
        lock(&self.off_list).contains(&id)
    }

    /// Whether a list of this cluster has members that are not known here. A caller says so, which proves nothing.
    pub(super) fn has_strangers(&self, roster: &Roster) -> bool {
        roster.cluster_id == self.cluster_id && roster.members.iter().any(|one| self.is_news(one))
    }

    fn is_news(&self, member: &Member) -> bool {
        let is_removed = lock(&self.known).removed.contains(&member.id);
        member.id != self.me && !is_removed && self.link(member.id).is_none()
    }

    /// Asks the members on the replicated list, at their addresses there, who else belongs to the cluster. What they say
    /// is only used as members to call and to listen to.
    pub(super) fn ask_around(self: &Arc<Shared>) {
        if self.is_asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let links: Vec<Arc<Link>> = lock(&self.links).values().cloned().collect();
        let shared = self.clone();
        tokio::spawn(async move {
            for link in links.into_iter().filter(|link| !shared.is_off_list(link.id)) {
                let Ok(roster) = ask(&link.address, &shared.security).await else { continue };
                if roster.cluster_id == shared.cluster_id {
                    let news = roster.members.into_iter().filter(|one| shared.is_news(one));
                    let unknown: Vec<Member> = news.collect();
                    if !unknown.is_empty() {
                        shared.tell(PeerEvent::Heard(unknown));
                        break;
                    }
                }
            }
            tokio::time::sleep(ASK_PAUSE).await;
            shared.is_asking.store(false, Ordering::Release);
        });
    }

    /// The answer to a process that wants to join.
    pub(super) fn roster(&self) -> Roster {
        let known = lock(&self.known);
        Roster {
            cluster_id: self.cluster_id,
            cluster_version: known.cluster_version,
            members: known.members.clone(),
        }
    }
}
