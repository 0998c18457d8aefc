//! Links between members without a network of our own: for users that are not root.
//!
//! Every member advertises the address of a relay that leads to it. All others call the same relay, so it finds out
//! which member calls: the socket at the other end belongs to one of the members' processes, and `/proc` says to which.
//! From then on every direction between two members is a link that can be cut, or made slow.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use super::Chance;
use crate::{Address, reserve};

/// How much is passed on at once.
const PIECE: usize = 16 * 1024;
/// How often the owner of the calling socket is looked up, before the call is dropped.
const ASK_MAX: usize = 20;
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long a lost packet is missed: a TCP retransmission takes no less.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// What one direction between two members is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    open: bool,
    delay: Duration,
    /// Pieces of a hundred that come a retransmission later.
    lost: usize,
}

const GOOD: Line = Line { open: true, delay: Duration::ZERO, lost: 0 };

/// Relays between all members.
#[derive(Debug)]
pub struct Switchboard {
    /// Where clients reach each member, where the relay to it listens, and where it listens itself.
    pub places: Vec<[Address; 3]>,
    lines: Arc<Lines>,
    processes: Arc<Mutex<Vec<Option<u32>>>>,
    relays: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Lines {
    count: usize,
    all: Vec<watch::Sender<Line>>,
}

impl Lines {
    fn between(&self, from: usize, to: usize) -> &watch::Sender<Line> {
        &self.all[from * self.count + to]
    }
}

impl Switchboard {
    /// Relays for so many members.
    pub async fn new(count: usize) -> Switchboard {
        let places: Vec<[Address; 3]> =
            reserve(3 * count).chunks(3).map(|place| [place[0], place[1], place[2]]).collect();
        let all = (0..count * count).map(|_| watch::Sender::new(GOOD)).collect();
        let lines = Arc::new(Lines { count, all });
        let processes = Arc::new(Mutex::new(vec![None; count]));
        let mut relays = Vec::new();
        for (to, [_, relay, target]) in places.iter().copied().enumerate() {
            let listener = TcpListener::bind(relay.to_string()).await.expect("nobody else has it");
            let (lines, processes) = (Arc::clone(&lines), Arc::clone(&processes));
            relays.push(tokio::spawn(async move {
                // They end with this task.
                let mut paths = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    paths.spawn(path(
                        stream,
                        to,
                        target,
                        Arc::clone(&lines),
                        Arc::clone(&processes),
                    ));
                }
            }));
        }
        Switchboard { places, lines, processes, relays }
    }

    /// A member has a new process.
    pub fn started(&self, at: usize, pid: u32) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(pid);
    }

    /// Nothing comes through in this direction any more. Neither side is told.
    pub fn cut_one_way(&self, from: usize, to: usize) {
        self.lines.between(from, to).send_modify(|line| line.open = false);
    }

    /// Every direction loses so many of a hundred pieces, which come later then.
    pub fn lose(&self, of_hundred: usize) {
        self.lines.all.iter().for_each(|line| line.send_modify(|line| line.lost = of_hundred));
    }

    /// What this member sends takes longer.
    pub fn slow(&self, from: usize, delay: Duration) {
        for to in 0..self.lines.count {
            self.lines.between(from, to).send_modify(|line| line.delay = delay);
        }
    }

    /// Everything is as it was; what was held back arrives first.
    pub fn heal(&self) {
        self.lines.all.iter().for_each(|line| line.send_modify(|line| *line = GOOD));
    }
}

impl Drop for Switchboard {
    fn drop(&mut self) {
        self.relays.iter().for_each(JoinHandle::abort);
    }
}

async fn path(
    here: TcpStream,
    to: usize,
    target: Address,
    lines: Arc<Lines>,
    processes: Arc<Mutex<Vec<Option<u32>>>>,
) {
    let Some(from) = caller(&here, &processes).await else { return };
    let mut there = lines.between(from, to).subscribe();
    if there.wait_for(|line| line.open).await.is_err() {
        return;
    }
    let back = lines.between(to, from).subscribe();
    let Ok(stream) = TcpStream::connect(target.to_string()).await else { return };
    let _ = (here.set_nodelay(true), stream.set_nodelay(true));
    let (here_out, here_in) = here.into_split();
    let (there_out, there_in) = stream.into_split();
    tokio::join!(pass(here_out, there_in, there), pass(there_out, here_in, back));
}

/// Which member's socket is at the other end.
async fn caller(stream: &TcpStream, processes: &Mutex<Vec<Option<u32>>>) -> Option<usize> {
    let port = stream.peer_addr().ok()?.port();
    for _ in 0..ASK_MAX {
        let known = processes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(inode) = inode_of(port) {
            let owner = known.iter().position(|pid| pid.is_some_and(|pid| owns(pid, inode)));
            if owner.is_some() {
                return owner;
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    None
}

/// The socket with this local port that is connected.
fn inode_of(port: u16) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let local = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        // 01 is an established connection.
        let ours = columns.get(1)?.ends_with(&local) && *columns.get(3)? == "01";
        if ours { columns.get(9)?.parse().ok() } else { None }
    })
}

fn owns(pid: u32, inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let is_it = |link: &Path| fs::read_link(link).is_ok_and(|to| to.as_os_str() == wanted.as_str());
    open.flatten().any(|one| is_it(&one.path()))
}

/// Passes on what comes, also its end, as the link allows.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut line: watch::Receiver<Line>) {
    let mut chance = Chance::new(u64::from(from.peer_addr().map_or(0, |peer| peer.port())));
    let mut bytes = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let now = *line.borrow();
        let lost = if chance.percent(now.lost) { RETRANSMISSION } else { Duration::ZERO };
        if !(now.delay + lost).is_zero() {
            tokio::time::sleep(now.delay + lost).await;
        }
        if line.wait_for(|line| line.open).await.is_err()
            || to.write_all(&bytes[..length]).await.is_err()
        {
            return;
        }
    }
    let _ = line.wait_for(|line| line.open).await;
    let _ = to.shutdown().await;
}
