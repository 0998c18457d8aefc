//! A network of our own: each member in a namespace, all of them and the test on one bridge.
//!
//! Links are cut by dropping packets at the receiver, so that a cut can be one-way and neither side is told.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

use crate::{Address, Cluster, Etcd, Plan, tools};

const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;

/// Namespaces and the bridge between them; gone when dropped.
#[derive(Debug)]
pub struct Network {
    tag: String,
    subnet: [u8; 2],
    count: usize,
    slowed: AtomicBool,
}

impl Network {
    /// Makes a network for so many members.
    pub fn new(count: usize) -> Network {
        tools::must_be_root("it makes network namespaces");
        tools::system("iptables", "iptables");
        // Tests of one program may run in one process.
        static MADE: AtomicU8 = AtomicU8::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let [.., middle, low] = std::process::id().to_be_bytes();
        // Interface names have 15 characters at the most.
        let network = Network {
            tag: format!("te{:x}{:x}", std::process::id(), number % 16),
            subnet: [middle ^ (number << 5), low],
            count,
            slowed: AtomicBool::new(false),
        };
        let bridge = network.bridge();
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["addr", "add", &format!("{}/24", network.host_ip()), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        for at in 0..count {
            network.add(at);
        }
        network
    }

    fn add(&self, at: usize) {
        let (space, outside, inside) = (self.space(at), self.outer_link(at), self.inner_link(at));
        ip(&["netns", "add", &space]);
        ip(&["link", "add", &outside, "type", "veth", "peer", "name", &inside, "netns", &space]);
        ip(&["link", "set", &outside, "master", &self.bridge(), "up"]);
        ip(&["-n", &space, "addr", "add", &format!("{}/24", self.ip(at)), "dev", &inside]);
        ip(&["-n", &space, "link", "set", &inside, "up"]);
        ip(&["-n", &space, "link", "set", "lo", "up"]);
    }

    /// A cluster with a member in each namespace.
    pub async fn cluster(&self, flags: &[&str]) -> Cluster {
        self.cluster_of(self.count, flags).await
    }

    /// A cluster with a member in each of the first namespaces; the others are for clients.
    pub async fn cluster_of(&self, count: usize, flags: &[&str]) -> Cluster {
        let plan = Plan { addresses: Some(self.addresses(count)), ..Plan::flags(flags) };
        let mut cluster = Cluster::prepare(count, plan);
        for (n, member) in cluster.members.iter_mut().enumerate() {
            member.spawn.before = self.inside(n);
            member.start();
        }
        cluster.ready().await;
        cluster
    }

    /// A member of etcd in each namespace.
    pub async fn etcd(&self) -> Etcd {
        let places = self.addresses(self.count).into_iter().enumerate();
        let mut etcd =
            Etcd::prepare_at(places.map(|(at, (client, peer))| (client, peer, self.inside(at))));
        (0..self.count).for_each(|at| etcd.start_member(at));
        etcd.healthy().await;
        etcd
    }

    /// Where members in the first namespaces listen, for clients and for each other.
    pub fn addresses(&self, count: usize) -> Vec<(Address, Address)> {
        let at = |ip, port| Address { ip, port };
        (0..count).map(|n| (at(self.ip(n), CLIENT_PORT), at(self.ip(n), PEER_PORT))).collect()
    }

    /// The command that runs another one in a member's namespace.
    pub fn inside(&self, at: usize) -> Vec<std::ffi::OsString> {
        let ip = tools::system("ip", "iproute2");
        vec![ip.into(), "netns".into(), "exec".into(), self.space(at).into()]
    }

    /// Packets from one member no longer reach the other. Neither side is told.
    pub fn cut_one_way(&self, from: usize, to: usize) {
        let source = self.ip(from).to_string();
        self.iptables(to, &["-A", "INPUT", "-s", &source, "-j", "DROP"]);
    }

    /// Cuts the link between two members.
    pub fn cut(&self, a: usize, b: usize) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Cuts a member off from all others. Clients still reach it.
    pub fn isolate(&self, alone: usize) {
        for other in (0..self.count).filter(|other| *other != alone) {
            self.cut(alone, other);
        }
    }

    /// Every member loses this share of all packets that come in.
    pub fn lose(&self, share: f32) {
        let share = share.to_string();
        for at in 0..self.count {
            let chance = ["-m", "statistic", "--mode", "random", "--probability", &share];
            self.iptables(at, &[&["-A", "INPUT"], &chance[..], &["-j", "DROP"]].concat());
        }
    }

    /// What a member sends leaves it no faster than `rate`, as tc writes it, and waits before that.
    pub fn slow(&self, at: usize, rate: &str) {
        self.slowed.store(true, Ordering::Relaxed);
        let shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"];
        self.tc(at, &[&["qdisc", "replace", "dev", &self.inner_link(at)], &shape[..]].concat());
    }

    /// Mends everything.
    pub fn heal(&self) {
        for at in 0..self.count {
            self.iptables(at, &["-F", "INPUT"]);
        }
        if self.slowed.swap(false, Ordering::Relaxed) {
            for at in 0..self.count {
                let link = self.inner_link(at);
                self.tc(at, &["qdisc", "replace", "dev", &link, "root", "pfifo"]);
            }
        }
    }

    fn tc(&self, at: usize, rule: &[&str]) {
        let tc = tools::system("tc", "iproute2");
        let space = self.space(at);
        let mut args = vec!["netns", "exec", &space, tc.to_str().expect("a path of ours")];
        args.extend(rule);
        ip(&args);
    }

    fn iptables(&self, at: usize, rule: &[&str]) {
        let iptables = tools::system("iptables", "iptables");
        let space = self.space(at);
        let mut args =
            vec!["netns", "exec", &space, iptables.to_str().expect("a path of ours"), "-w"];
        args.extend(rule);
        ip(&args);
    }

    fn inner_link(&self, at: usize) -> String {
        format!("{}i{at}", self.tag)
    }

    fn outer_link(&self, at: usize) -> String {
        format!("{}o{at}", self.tag)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.tag)
    }

    fn space(&self, at: usize) -> String {
        format!("{}-{at}", self.tag)
    }

    /// The address of a namespace.
    pub fn ip(&self, at: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, self.subnet[0], self.subnet[1], 10 + at as u8)
    }

    /// The address of the test itself.
    pub fn host_ip(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.subnet[0], self.subnet[1], 1)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let ip = tools::system("ip", "iproute2");
        let quietly = |args: &[&str]| {
            let _ = std::process::Command::new(&ip).args(args).output();
        };
        for at in 0..self.count {
            quietly(&["netns", "delete", &self.space(at)]);
            // A namespace stays, and so would this, for as long as it has sockets of processes that were killed.
            quietly(&["link", "delete", &self.outer_link(at)]);
        }
        quietly(&["link", "delete", &self.bridge()]);
    }
}

fn ip(args: &[&str]) -> String {
    tools::run(&tools::system("ip", "iproute2"), args)
}
