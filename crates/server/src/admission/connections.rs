//! How many connections clients may have.
//!
//! Each is a file to the kernel. If clients could take all that a process may open, a member could not open its next log segment,
//! and would have to stop. So some are kept back; a client that connects when the rest is in use is hung up on, and can try
//! another member.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use rustix::process::{Resource, getrlimit};
use tenure_tls::Names;
use tracing::{info, warn};

use super::{FILES_KEPT, METRICS_CONNECTIONS_MAX, calls::OpenCalls};

/// The connections to some addresses.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    count: AtomicUsize,
    /// A client was hung up on, and that was logged.
    is_full: AtomicBool,
}

impl Connections {
    /// Of clients: what the process may have open, without what is kept.
    pub(crate) fn of_clients() -> Connections {
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
        // Half is better than nothing where very few are allowed.
        Connections::new(files.saturating_sub(FILES_KEPT).max(files / 2))
    }

    /// For clients that read metrics and health on addresses of their own.
    pub(crate) fn for_metrics() -> Connections {
        Connections::new(METRICS_CONNECTIONS_MAX)
    }

    pub(crate) fn new(max: usize) -> Connections {
        let (count, is_full) = (AtomicUsize::new(0), AtomicBool::new(false));
        Connections(Arc::new(Shared { max, count, is_full }))
    }

    /// One more, unless there are too many. It counts until this is dropped.
    pub(crate) fn open(&self) -> Option<Connected> {
        let Shared { max, count, is_full } = &*self.0;
        if count.load(Relaxed) >= *max {
            if !is_full.swap(true, Relaxed) {
                warn!(
                    connections = max,
                    "too many connections: further clients are hung up on. Each is a file, and the process may have \
                     no more open (ulimit -n, LimitNOFILE)"
                );
            }
            return None;
        }
        count.fetch_add(1, Relaxed);
        Some(Connected(self.clone()))
    }
}

/// A connection that counts.
#[derive(Debug)]
pub(crate) struct Connected(Connections);

impl Drop for Connected {
    fn drop(&mut self) {
        let Shared { max, count, is_full } = &*self.0.0;
        let left = count.fetch_sub(1, Relaxed) - 1;
        // Not at every one that goes while others come.
        if left <= *max - max / 8 && is_full.swap(false, Relaxed) {
            info!(connections = left, "there is room for clients again");
        }
    }
}

/// What is known of a connection. Given to every request that comes over it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) calls: OpenCalls,
    /// None in the clear.
    pub(crate) tls: Option<Arc<Secured>>,
}

/// What TLS has proven of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secured {
    /// The names in the client's certificate. It was verified: an authority that this member trusts has signed it, and it
    /// is neither too old nor revoked. None if certificates are not demanded.
    pub(crate) certificate: Option<Names>,
    /// `--client-cert-auth` is on, so the common name may stand for a user. With `--trusted-ca-file` alone, certificates are
    /// demanded too, but say nothing about users.
    pub(crate) names_user: bool,
}

impl Connection {
    /// The user that the client's certificate names, if certificates name users here. Only for gRPC: etcd takes no
    /// certificate for a user where a request came as JSON.
    pub(crate) fn certificate_user(&self) -> Option<&str> {
        let secured = self.tls.as_deref().filter(|secured| secured.names_user)?;
        let name = &secured.certificate.as_ref()?.common_name;
        Some(&name[..]).filter(|name| !name.is_empty())
    }
}

/// Whether the other side of a connection has closed it.
///
/// Only what the other side's kernel says counts: an orderly end or a reset. A connection that this
/// member or its kernel gives up, because it stops or hears nothing, is not closed by the other side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    gone: Arc<AtomicBool>,
    /// The client's address, for the audit log.
    from: Option<Arc<str>>,
}

impl Link {
    /// Of a connection that says so here.
    pub(crate) fn of(gone: Arc<AtomicBool>) -> Link {
        Link { gone, from: None }
    }

    /// Of a connection that a client made from there.
    pub(crate) fn from_client(address: SocketAddr) -> Link {
        Link { gone: Arc::default(), from: Some(address.to_string().into()) }
    }

    /// Where the client is, if that is known.
    pub(crate) fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// It has.
    pub(crate) fn closed(&self) {
        self.gone.store(true, Release);
    }

    /// Whether it has.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_there_are_too_many_is_not_taken_and_later_is() {
        let connections = Connections::new(8);
        let mut open: Vec<_> = std::iter::from_fn(|| connections.open()).collect();
        assert_eq!(open.len(), 8);
        assert!(connections.open().is_none());
        open.pop();
        assert!(connections.open().is_some());
        drop(open);
        assert_eq!(connections.0.count.load(Relaxed), 0);
    }

    #[test]
    fn whatever_the_limit_is_some_are_kept() {
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
        let Connections(clients) = Connections::of_clients();
        assert!(clients.max > 0 && clients.max < files, "{} of {files}", clients.max);
    }
}
