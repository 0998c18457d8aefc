//! The members of a cluster, for a process that wants to join it and knows nothing but addresses, or for a member that
//! was away when they changed.

use std::{io, time::Duration};

use bytes::BytesMut;
use tenure_api::{ClusterId, Member};
use tenure_replica::codec::{Codec, DecodeError, Reader, put_u64};
use tokio::time::timeout;

use super::{
    frame::{FrameError, FrameKind, read_frame, write_frame},
    handshake::{Ask, HandshakeError, PROTOCOL_VERSION, Refusal},
    security::PeerSecurity,
};
use crate::io::Stream;

/// How long a member may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest list that is read.
const ROSTER_BYTES_MAX: usize = 1 << 20;

/// A cluster as one of its members knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// The command version in force: a member that cannot apply it cannot join.
    pub cluster_version: u32,
    /// Its members.
    pub members: Vec<Member>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No connection to that address, or no answer in time.
    #[error("{0}")]
    Unreachable(#[from] io::Error),
    /// A connection, but no valid answer.
    #[error("{0}")]
    NoAnswer(String),
}

/// Asks the member at an address (`host:port`) for the members of its cluster.
pub async fn ask(address: &str, security: &PeerSecurity) -> Result<Roster, AskError> {
    let answer = async {
        let mut stream = security.dial(address).await?;
        let asked = exchange(&mut stream).await;
        asked.map_err(|error| AskError::NoAnswer(error.to_string()))
    };
    let late = || AskError::Unreachable(io::ErrorKind::TimedOut.into());
    timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(|_| Err(late()))
}

/// Tells the member at an address the members of the cluster. A member that was away while we were
/// added does not know us, and if we lead, no other member will tell it.
pub(super) async fn tell(address: &str, security: &PeerSecurity, roster: &Roster) {
    let told = async {
        let mut stream = security.dial(address).await?;
        write_frame(&mut stream, FrameKind::Roster, &roster.to_bytes()).await
    };
    // If it does not arrive, the next refusal has us try again.
    let _ = timeout(ANSWER_TIMEOUT, told).await;
}

async fn exchange(stream: &mut impl Stream) -> Result<Roster, HandshakeError> {
    let ask = Ask { protocol: PROTOCOL_VERSION };
    write_frame(stream, FrameKind::Ask, &ask.to_bytes()).await?;
    let mut buffer = BytesMut::new();
    read_frame(stream, &mut buffer, ROSTER_BYTES_MAX, |kind, payload| match kind {
        FrameKind::Roster => Ok(Ok(Roster::from_bytes(payload)?)),
        FrameKind::Refusal => Ok(Err(Refusal::from_bytes(payload)?)),
        other => Err(FrameError::OutOfPlace(other)),
    })
    .await?
    .map_err(HandshakeError::Refused)
}

impl Codec for Roster {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.cluster_id.0);
        put_u64(out, u64::from(self.cluster_version));
        put_u64(out, self.members.len() as u64);
        for member in &self.members {
            member.encode(out);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Roster, DecodeError> {
        let cluster_id = ClusterId(input.u64()?);
        let cluster_version = u32::try_from(input.u64()?).map_err(|_| DecodeError::Overflow)?;
        let members =
            (0..input.count()?).map(|_| Member::decode(input)).collect::<Result<_, _>>()?;
        Ok(Roster { cluster_id, cluster_version, members })
    }
}
