//! Addresses to listen on, and who is in the way.

use std::{fs, io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket, lookup_host};

use crate::config::address;

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

/// Listens on every URL.
pub(super) async fn all(
    urls: &[String],
    flag: &'static str,
) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    for url in urls {
        listeners.push(open(url, flag).await?);
    }
    Ok(listeners)
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
/// [`ListenError`] says who is in the way, and which flag chooses another address.
pub async fn at(at: &str, flag: &'static str) -> Result<TcpListener, ListenError> {
    bind(at).await.map_err(|cause| {
        let in_use = cause.kind() == io::ErrorKind::AddrInUse;
        let port = at.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let owner = port.filter(|_| in_use).and_then(owner_of);
        ListenError { address: at.to_owned(), flag, owner, cause }
    })
}

async fn bind(at: &str) -> io::Result<TcpListener> {
    let resolved: Vec<SocketAddr> = lookup_host(at).await?.collect();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in resolved {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restart must not wait for the old life's connections to fade.
        socket.set_reuseaddr(true)?;
        match socket.bind(address).and_then(|()| socket.listen(BACKLOG)) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The process that listens on a port, as far as the kernel lets us see.
pub fn owner_of(port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().skip(1).find_map(|line| listener_inode(line, port)).map(str::to_owned)
    })?;
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        files.find(|file| {
            fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str())
        })?;
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!("process {pid} ({})", name.trim()))
    })
}

/// The inode of a line of /proc/net/tcp, if it is a socket that listens on this port.
fn listener_inode(line: &str, port: u16) -> Option<&str> {
    const LISTENS: &str = "0A";
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let (_, local_port) = local.rsplit_once(':')?;
    (state == LISTENS && u16::from_str_radix(local_port, 16) == Ok(port)).then_some(inode)
}
