//! Interface agreed with the node (another engineer compiles against it): replace this file, keep these names.
//! New since the task was written: `directory` travels in the handshake. `Transport::know(directories)` tells
//! which data directory number the cluster knows for each member; an incoming connection of a member with
//! another number is refused with a typed reason (`ReplacedDirectory`), and the dialer that receives that
//! refusal reports `PeerEvent::Disowned { by }` (the process then stops: a forgotten vote is two leaders in a term).
#![allow(missing_docs)]

use std::{collections::BTreeMap, path::PathBuf};

use tenure_api::{ClusterId, MemberId};
use tenure_replica::{Message, RaftMessage};
use tokio::{net::TcpListener, sync::mpsc};

pub struct TransportConfig {
    pub me: MemberId,
    pub cluster_id: ClusterId,
    pub boot: u64,
    pub directory: u64,
    pub command_version: u32,
    pub listener: TcpListener,
    pub peers: Vec<(MemberId, String)>,
    pub snapshots: PathBuf,
}

#[derive(Debug)]
pub enum PeerEvent {
    Message { from: MemberId, message: Message },
    Connected { member: MemberId, command_version: u32 },
    Lost(MemberId),
    Disowned { by: MemberId },
    SnapshotReceived { from: MemberId, message: RaftMessage, path: PathBuf },
    SnapshotSent { to: MemberId, ok: bool },
}

pub struct Transport;

impl Transport {
    pub fn start(_config: TransportConfig, _events: mpsc::UnboundedSender<PeerEvent>) -> Transport {
        Transport
    }

    pub fn send(&self, _to: MemberId, _message: &Message) {}

    pub fn send_snapshot(&self, _to: MemberId, _message: RaftMessage, _path: PathBuf) {}

    pub fn know(&self, _directories: &BTreeMap<MemberId, u64>) {}
}
