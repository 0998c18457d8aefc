//! Addresses to listen on, and the process that uses one already.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

use tokio::net::{TcpListener, TcpSocket, lookup_host};

use crate::config::{address, is_tls};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// An address could not be listened to.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}; choose another address with --{flag}", self.why())]
pub struct ListenError {
    /// Which address.
    pub address: String,
    /// Which flag sets it.
    pub flag: &'static str,
    /// The process that has it.
    pub owner: Option<String>,
    /// The system's word for it.
    #[source]
    pub cause: io::Error,
}

impl ListenError {
    fn why(&self) -> String {
        match &self.owner {
            Some(owner) => format!("it is in use by {owner}"),
            None => self.cause.to_string(),
        }
    }
}

/// An address that is listened to, and what is spoken there.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) in_the_clear: bool,
    pub(super) tls: bool,
}

impl Listener {
    /// The safe one, where both are spoken.
    pub(super) fn url(&self) -> Option<String> {
        let scheme = if self.tls { "https" } else { "http" };
        Some(format!("{scheme}://{}", self.socket.local_addr().ok()?))
    }
}

/// Listens on every URL. Two that differ only in `http` and `https` are one address at which both are spoken.
pub(super) async fn all(urls: &[String], flag: &'static str) -> Result<Vec<Listener>, ListenError> {
    let mut listeners: Vec<(String, Listener)> = Vec::new();
    for url in urls {
        let (at, tls) = (address(url).unwrap_or_default(), is_tls(url));
        // Port 0 is another free one each time.
        let known = listeners.iter_mut().find(|(known, _)| *known == at && !at.ends_with(":0"));
        match known {
            Some((_, listener)) => {
                listener.tls |= tls;
                listener.in_the_clear |= !tls;
            }
            None => {
                let socket = self::at(&at, flag).await?;
                listeners.push((at, Listener { socket, in_the_clear: !tls, tls }));
            }
        }
    }
    Ok(listeners.into_iter().map(|(_, listener)| listener).collect())
}

/// Listens on the first URL.
pub(super) async fn one(urls: &[String], flag: &'static str) -> Result<TcpListener, ListenError> {
    open(urls.first().map_or("", String::as_str), flag).await
}

async fn open(url: &str, flag: &'static str) -> Result<TcpListener, ListenError> {
    at(&address(url).unwrap_or_default(), flag).await
}

/// Listens on `host:port`, which the flag of this name has set.
///
/// # Errors
/// [`ListenError`] names the process that uses the address, and the flag that chooses another one.
pub async fn at(at: &str, flag: &'static str) -> Result<TcpListener, ListenError> {
    bind(at).await.map_err(|(tried, cause)| {
        let in_use = cause.kind() == io::ErrorKind::AddrInUse;
        let owner = tried.filter(|_| in_use).and_then(owner_of);
        ListenError { address: at.to_owned(), flag, owner, cause }
    })
}

/// The first address that can be listened to; or the last that could not, if there was one.
async fn bind(at: &str) -> Result<TcpListener, (Option<SocketAddr>, io::Error)> {
    let resolved = lookup_host(at).await.map_err(|error| (None, error))?;
    let none = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut failed = (None, none);
    for address in resolved {
        match bind_one(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = (Some(address), error),
        }
    }
    Err(failed)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for the old life's connections to fade.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The process that listens where we want to, as far as the kernel lets us see.
pub fn owner_of(wanted: SocketAddr) -> Option<String> {
    let read = |table| fs::read_to_string(table).unwrap_or_default();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(read);
    let lines = || tables.iter().flat_map(|table| table.lines().skip(1));
    // A process that listens on this very address is named before one that listens on all of them.
    let same = |local: SocketAddr| canonical(local) == canonical(wanted);
    let inode = lines().find_map(|line| listener_inode(line, same));
    let inode = inode.or_else(|| {
        lines().find_map(|line| listener_inode(line, |local| in_the_way(local, wanted)))
    })?;
    let link = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        files.find(|file| {
            fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == link.as_str())
        })?;
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!("process {pid} ({})", name.trim()))
    })
}

/// Whether two cannot listen at once: one address, or one of them is all addresses of its family.
/// Those of `[::]` include those of IPv4, unless the other process has asked for less.
fn in_the_way(local: SocketAddr, wanted: SocketAddr) -> bool {
    let (local, wanted) = (canonical(local), canonical(wanted));
    let covers = |all: IpAddr, one: IpAddr| {
        all.is_unspecified() && (all.is_ipv6() || all.is_ipv4() == one.is_ipv4())
    };
    local.port() == wanted.port()
        && (local.ip() == wanted.ip()
            || covers(local.ip(), wanted.ip())
            || covers(wanted.ip(), local.ip()))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The inode of a line of /proc/net/tcp, if it is a socket that listens at such an address.
fn listener_inode(line: &str, is_meant: impl Fn(SocketAddr) -> bool) -> Option<&str> {
    const LISTENS: &str = "0A";
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    (state == LISTENS && is_meant(local_address(local)?)).then_some(inode)
}

/// Reads `0100007F:094B`. The kernel writes addresses as words of four bytes, in its own byte order.
fn local_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let word = |at: usize| {
        let word = ip.get(at * 8..(at + 1) * 8)?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_that_address_or_all_of_them_is_in_the_way() {
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        for (local, wanted, expected) in [
            ("127.0.0.1:2379", "127.0.0.1:2379", true),
            ("127.0.0.1:2379", "127.0.0.1:2380", false),
            ("127.0.0.2:2379", "127.0.0.1:2379", false),
            ("0.0.0.0:2379", "127.0.0.1:2379", true),
            ("127.0.0.2:2379", "0.0.0.0:2379", true),
            ("[::]:2379", "127.0.0.1:2379", true),
            ("[::1]:2379", "127.0.0.1:2379", false),
            ("[::1]:2379", "0.0.0.0:2379", false),
            ("[::ffff:127.0.0.1]:2379", "127.0.0.1:2379", true),
        ] {
            assert_eq!(in_the_way(at(local), at(wanted)), expected, "{local} {wanted}");
        }
    }

    #[test]
    fn the_kernels_own_table_is_read() {
        for host in ["127.0.0.1", "127.0.0.3", "::1"] {
            // Where there is no IPv6 there is nothing to be read of it.
            let Ok(listener) = std::net::TcpListener::bind((host, 0)) else { continue };
            let at = listener.local_addr().unwrap();
            let owner = owner_of(at).unwrap();
            assert!(owner.starts_with(&format!("process {} ", std::process::id())), "{owner}");
            let beside = SocketAddr::new([127, 0, 0, 77].into(), at.port());
            assert_eq!(owner_of(beside), None, "{host}");
        }
    }

    #[tokio::test]
    async fn whoever_has_the_port_at_another_address_is_not_accused() {
        let held = std::net::TcpListener::bind("127.0.0.4:0").unwrap();
        let port = held.local_addr().unwrap().port();
        assert!(super::at(&format!("127.0.0.5:{port}"), "listen-client-urls").await.is_ok());
        let refused = super::at(&format!("127.0.0.4:{port}"), "listen-client-urls").await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(&format!("in use by process {}", std::process::id())), "{said}");
    }
}
