//! The handshake: which member calls which, and why a call is refused.
//!
//! Both sides say hello before anything else. The one that was called checks the hello and answers
//! with its own, or with a reason that both sides can print.

use std::time::Duration;

use bytes::BytesMut;
use tenure_api::{ClusterId, MemberId};
use tenure_replica::codec::{Codec, DecodeError, Reader, put_u64};
use tokio::time::timeout;

use crate::io::Stream;

use super::{
    frame::{FrameError, FrameKind, read_frame, write_frame},
    roster::Roster,
};

/// The protocol spoken here. A member that speaks another one is refused.
pub const PROTOCOL_VERSION: u32 = 1;
/// How long the other side may take to introduce itself.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
const MAGIC: &[u8; 11] = b"tenure-peer";
/// A hello and a refusal are short; garbage is noticed at once.
const HELLO_BYTES_MAX: usize = 256;
/// What a caller says first may also be a list of members.
pub(super) const FIRST_BYTES_MAX: usize = 64 << 10;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Messages = 1,
    Snapshot = 2,
}

/// An introduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) purpose: Purpose,
    pub(super) cluster_id: ClusterId,
    pub(super) from: MemberId,
    pub(super) to: MemberId,
    /// Which life of the sender this is.
    pub(super) boot: u64,
    /// The number of the sender's data directory.
    pub(super) directory: u64,
    /// The highest command version that the sender can apply.
    pub(super) command_version: u32,
}

/// Why a connection is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it speaks peer protocol version {0}, this release speaks {PROTOCOL_VERSION}")]
    Protocol(u32),
    #[error(
        "it belongs to cluster {0}; check --initial-cluster and --initial-cluster-token, and, if members were \
         imported or restored, that all of them were made of the same file"
    )]
    OtherCluster(ClusterId),
    #[error("it is member {0}, not the one expected at this address; check --initial-cluster")]
    OtherMember(MemberId),
    #[error("it does not know member {0}; add that member to the cluster first")]
    UnknownMember(MemberId),
    /// Which one is not said: a caller that knows passes for that member.
    #[error("the cluster knows this member with another data directory")]
    ReplacedDirectory,
    #[error("a newer life of this member ({0}) has already called")]
    Outlived(u64),
    #[error("it is already receiving a snapshot from this member")]
    Busy,
    #[error("member {0} was removed from the cluster")]
    Removed(MemberId),
    #[error(
        "the cluster uses commands of version {0}, which this release does not know: install a newer one"
    )]
    TooOld(u32),
    #[error("it must prove that it knows the secret of --peer-secret-file")]
    Unproven,
    #[error(
        "its certificate does not name member {0}: neither the host of its peer URL as an alternative name, nor its --name as the \
         common name (--peer-skip-client-san-verification does not look)"
    )]
    OtherCertificate(MemberId),
}

/// How a handshake ended without a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("no introduction within {HANDSHAKE_TIMEOUT:?}")]
    Silent,
}

/// Introduces us and waits for the answer.
pub(super) async fn introduce(
    stream: &mut impl Stream,
    ours: &Hello,
) -> Result<Hello, HandshakeError> {
    write_frame(stream, FrameKind::Hello, &ours.to_bytes()).await?;
    let mut buffer = BytesMut::new();
    let answer = read_frame(stream, &mut buffer, HELLO_BYTES_MAX, |kind, payload| match kind {
        FrameKind::Hello => Ok(Ok(Hello::from_bytes(payload)?)),
        FrameKind::Refusal => Ok(Err(Refusal::from_bytes(payload)?)),
        other => Err(FrameError::OutOfPlace(other)),
    });
    let theirs = timeout(HANDSHAKE_TIMEOUT, answer)
        .await
        .map_err(|_| HandshakeError::Silent)??
        .map_err(HandshakeError::Refused)?;
    Ok(theirs)
}

/// The caller.
#[derive(Debug)]
pub(super) enum Caller {
    /// A member, by its own account.
    Member(Hello),
    /// A process that wants to know the members.
    Asks(Ask),
    /// A member that we did not know, with the list that it is on.
    Tells(Roster),
}

/// Waits for a caller's introduction. What came after it is left in `buffer`.
pub(super) async fn listen(
    stream: &mut impl Stream,
    buffer: &mut BytesMut,
) -> Result<Caller, HandshakeError> {
    let hello = read_frame(stream, buffer, FIRST_BYTES_MAX, |kind, payload| match kind {
        FrameKind::Hello => Ok(Caller::Member(Hello::from_bytes(payload)?)),
        FrameKind::Ask => Ok(Caller::Asks(Ask::from_bytes(payload)?)),
        FrameKind::Roster => Ok(Caller::Tells(Roster::from_bytes(payload)?)),
        other => Err(FrameError::OutOfPlace(other)),
    });
    Ok(timeout(HANDSHAKE_TIMEOUT, hello).await.map_err(|_| HandshakeError::Silent)??)
}

impl Codec for Hello {
    /// Magic and protocol are at fixed offsets, so that every version can tell every other one apart.
    fn encode(&self, out: &mut Vec<u8>) {
        put_protocol(out, self.protocol);
        out.push(self.purpose as u8);
        for number in [
            self.cluster_id.0,
            self.from.0,
            self.to.0,
            self.boot,
            self.directory,
            u64::from(self.command_version),
        ] {
            put_u64(out, number);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Hello, DecodeError> {
        let protocol = read_protocol(input)?;
        if protocol != PROTOCOL_VERSION {
            return Ok(Hello::of_another_protocol(protocol, input));
        }
        Ok(Hello {
            protocol,
            purpose: match input.u8()? {
                1 => Purpose::Messages,
                2 => Purpose::Snapshot,
                tag => return Err(DecodeError::UnknownTag { what: "peer purpose", tag }),
            },
            cluster_id: ClusterId(input.u64()?),
            from: MemberId(input.u64()?),
            to: MemberId(input.u64()?),
            boot: input.u64()?,
            directory: input.u64()?,
            command_version: u32::try_from(input.u64()?).map_err(|_| DecodeError::Overflow)?,
        })
    }
}

fn put_protocol(out: &mut Vec<u8>, protocol: u32) {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&protocol.to_le_bytes());
}

fn read_protocol(input: &mut Reader<'_>) -> Result<u32, DecodeError> {
    for expected in MAGIC {
        let tag = input.u8()?;
        if tag != *expected {
            return Err(DecodeError::UnknownTag { what: "peer magic", tag });
        }
    }
    let mut protocol = [0; 4];
    for byte in &mut protocol {
        *byte = input.u8()?;
    }
    Ok(u32::from_le_bytes(protocol))
}

/// A question for the members, from a process that is none or does not know it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) protocol: u32,
}

impl Codec for Ask {
    fn encode(&self, out: &mut Vec<u8>) {
        put_protocol(out, self.protocol);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Ask, DecodeError> {
        let protocol = read_protocol(input)?;
        // What other releases may add is their own affair.
        while input.u8().is_ok() {}
        Ok(Ask { protocol })
    }
}

impl Hello {
    /// All we can know of a caller from another release; what follows is its own affair.
    fn of_another_protocol(protocol: u32, input: &mut Reader<'_>) -> Hello {
        while input.u8().is_ok() {}
        Hello {
            protocol,
            purpose: Purpose::Messages,
            cluster_id: ClusterId(0),
            from: MemberId(0),
            to: MemberId(0),
            boot: 0,
            directory: 0,
            command_version: 0,
        }
    }
}

impl Codec for Refusal {
    fn encode(&self, out: &mut Vec<u8>) {
        let (tag, detail) = match *self {
            Refusal::Protocol(version) => (1, u64::from(version)),
            Refusal::OtherCluster(cluster) => (2, cluster.0),
            Refusal::OtherMember(member) => (3, member.0),
            Refusal::UnknownMember(member) => (4, member.0),
            Refusal::ReplacedDirectory => (5, 0),
            Refusal::Outlived(boot) => (6, boot),
            Refusal::Busy => (7, 0),
            Refusal::Removed(member) => (8, member.0),
            Refusal::TooOld(version) => (9, u64::from(version)),
            Refusal::Unproven => (10, 0),
            Refusal::OtherCertificate(member) => (11, member.0),
        };
        out.push(tag);
        put_u64(out, detail);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Refusal, DecodeError> {
        let tag = input.u8()?;
        let detail = input.u64()?;
        Ok(match tag {
            1 => Refusal::Protocol(u32::try_from(detail).map_err(|_| DecodeError::Overflow)?),
            2 => Refusal::OtherCluster(ClusterId(detail)),
            3 => Refusal::OtherMember(MemberId(detail)),
            4 => Refusal::UnknownMember(MemberId(detail)),
            5 => Refusal::ReplacedDirectory,
            6 => Refusal::Outlived(detail),
            7 => Refusal::Busy,
            8 => Refusal::Removed(MemberId(detail)),
            9 => Refusal::TooOld(u32::try_from(detail).map_err(|_| DecodeError::Overflow)?),
            10 => Refusal::Unproven,
            11 => Refusal::OtherCertificate(MemberId(detail)),
            tag => return Err(DecodeError::UnknownTag { what: "refusal", tag }),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn introductions_come_back_and_garbage_is_an_error(
            numbers: [u64; 5], command_version: u32, garbage: Vec<u8>,
        ) {
            let [cluster, from, to, boot, directory] = numbers;
            let hello = Hello {
                protocol: PROTOCOL_VERSION,
                purpose: Purpose::Snapshot,
                cluster_id: ClusterId(cluster),
                from: MemberId(from),
                to: MemberId(to),
                boot,
                directory,
                command_version,
            };
            prop_assert_eq!(Hello::from_bytes(&hello.to_bytes()).unwrap(), hello);
            let refusal = Refusal::Outlived(boot);
            prop_assert_eq!(Refusal::from_bytes(&refusal.to_bytes()).unwrap(), refusal);
            prop_assert!(Hello::from_bytes(&garbage).is_err());
        }
    }
}
