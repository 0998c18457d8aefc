//! Addresses that no other test uses.
//!
//! Every test process has a loopback address of its own, made from its process id: connections going out take
//! 127.0.0.1 as their source, so nothing can sit on one of our ports while a member restarts.

use std::{
    collections::BTreeSet,
    fmt,
    net::{Ipv4Addr, TcpListener},
    sync::Mutex,
};

/// Where something may listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The host.
    pub ip: Ipv4Addr,
    /// The port.
    pub port: u16,
}

impl Address {
    /// As a URL.
    pub fn url(&self) -> String {
        format!("http://{self}")
    }

    /// As a URL for TLS.
    pub fn https(&self) -> String {
        format!("https://{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ip, self.port)
    }
}

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Addresses that are free now and are not given out twice.
pub fn reserve(count: usize) -> Vec<Address> {
    let ip = own_ip();
    let mut given = GIVEN.lock().expect("nobody panics while holding it");
    // All are held until all are found, so that no two are the same.
    let mut held = Vec::new();
    let mut found = Vec::new();
    while found.len() < count {
        let listener = TcpListener::bind((ip, 0)).expect("a loopback address can be bound");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        held.push(listener);
        if given.insert(port) {
            found.push(Address { ip, port });
        }
    }
    found
}

/// 127.64.0.0/10 has as many addresses as Linux has process ids.
fn own_ip() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 63), middle, low)
}
