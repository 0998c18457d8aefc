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

use tokio::{net::TcpStream, sync::watch, task::JoinHandle};

use crate::{
    Address,
    relay::{Direction, carry, serve},
    reserve,
};

/// How often the owner of the calling socket is looked up, before the call is dropped.
const ASK_MAX: usize = 20;
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Relays between all members.
#[derive(Debug)]
pub struct Switchboard {
    /// Where clients reach each member, where the relay to it listens, and where it listens itself.
    pub places: Vec<[Address; 3]>,
    links: Arc<Links>,
    processes: Arc<Mutex<Vec<Option<u32>>>>,
    relays: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Links {
    count: usize,
    all: Vec<watch::Sender<Direction>>,
}

impl Links {
    fn between(&self, from: usize, to: usize) -> &watch::Sender<Direction> {
        &self.all[from * self.count + to]
    }
}

impl Switchboard {
    /// Relays for so many members.
    pub async fn new(count: usize) -> Switchboard {
        let places: Vec<[Address; 3]> =
            reserve(3 * count).chunks(3).map(|place| [place[0], place[1], place[2]]).collect();
        let all = (0..count * count).map(|_| watch::Sender::new(Direction::GOOD)).collect();
        let links = Arc::new(Links { count, all });
        let processes = Arc::new(Mutex::new(vec![None; count]));
        let mut relays = Vec::new();
        for (to, [_, relay, target]) in places.iter().copied().enumerate() {
            let (links, processes) = (Arc::clone(&links), Arc::clone(&processes));
            let carried =
                move |stream| path(stream, to, target, Arc::clone(&links), Arc::clone(&processes));
            relays.push(serve(relay, carried).await);
        }
        Switchboard { places, links, processes, relays }
    }

    /// A member has a new process.
    pub fn started(&self, at: usize, pid: u32) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(pid);
    }

    /// Nothing comes through in this direction any more. Neither side is told.
    pub fn cut_one_way(&self, from: usize, to: usize) {
        self.links.between(from, to).send_modify(|link| link.open = false);
    }

    /// Every direction loses so many of a hundred pieces, which come later then.
    pub fn lose(&self, of_hundred: usize) {
        self.links.all.iter().for_each(|link| link.send_modify(|now| now.lost = of_hundred));
    }

    /// What this member sends takes longer.
    pub fn slow(&self, from: usize, delay: Duration) {
        for to in 0..self.links.count {
            self.links.between(from, to).send_modify(|link| link.delay = delay);
        }
    }

    /// Everything is as it was; what was held back arrives first.
    pub fn heal(&self) {
        self.links.all.iter().for_each(|link| link.send_modify(|now| *now = Direction::GOOD));
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
    links: Arc<Links>,
    processes: Arc<Mutex<Vec<Option<u32>>>>,
) {
    let Some(from) = caller(&here, &processes).await else { return };
    let (there, back) = (links.between(from, to).subscribe(), links.between(to, from).subscribe());
    carry(here, target, there, back).await;
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
