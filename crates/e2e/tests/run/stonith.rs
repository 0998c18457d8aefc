//! The worked example of docs/how-to/stonith.md: a writer that cannot be stopped is cut off by nft before the
//! next one begins.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tenure_e2e::{Ctl, Network, Supervised, eventually, tools};

const PAGE: &str = include_str!("../../../../docs/how-to/stonith.md");

/// The shell blocks of the page, with `/usr/local/bin` somewhere else.
fn blocks(bin: &str) -> Vec<String> {
    let parts = PAGE.split("```sh\n").skip(1);
    let blocks = parts.map(|part| part.split("```").next().unwrap().replace("/usr/local/bin", bin));
    blocks.collect()
}

fn shell(script: &str) {
    let done = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The table of the page, gone when dropped.
struct Table;

impl Drop for Table {
    fn drop(&mut self) {
        let _ = Command::new("nft").args(["delete", "table", "inet", "tenure"]).output();
    }
}

/// The page's script, with an nft that notes what it is asked.
#[test]
fn stonith_example_takes_addresses_only() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().display().to_string();
    let blocks = blocks(&bin);
    shell(blocks.iter().find(|block| block.contains("cut-off")).unwrap());
    let asked = dir.path().join("asked");
    let nft = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\n", asked.display());
    std::fs::write(dir.path().join("nft"), nft).unwrap();
    shell(&format!("chmod +x {bin}/nft"));
    let cut_off = |value: &str| {
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        let script = format!("{bin}/cut-off");
        let mut command = Command::new("sh");
        command.arg(script).env("PATH", path).env("TENURE_FENCE_VALUE", value);
        command.output().unwrap().status.success()
    };
    for hostile in ["", "10.0.0.7 } ; flush ruleset ; {", "10.0.0.7\n", "$(id)", "host-1"] {
        assert!(!cut_off(hostile), "{hostile:?}");
    }
    assert!(!asked.exists(), "nft was not asked");
    assert!(cut_off("10.0.0.7"));
    assert!(std::fs::read_to_string(asked).unwrap().contains("fenced { 10.0.0.7 }"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stonith_cuts_off_a_writer_that_cannot_be_stopped() {
    tools::system("nft", "nftables");
    let network = Network::new(2);
    let cluster = network.cluster_of(1, &[]).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    // The storage host is where the test runs: it takes lines from any client.
    let storage = TcpListener::bind((network.host_ip(), 0)).unwrap();
    let address = storage.local_addr().unwrap();
    let written = Arc::new(Mutex::new(Vec::<String>::new()));
    let store = Arc::clone(&written);
    std::thread::spawn(move || {
        for stream in storage.incoming().flatten() {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    store.lock().unwrap().push(line);
                }
            });
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().display().to_string();
    let blocks = blocks(&bin);
    let _table = Table;
    for block in &blocks {
        shell(block);
    }

    // The old writer: its lead is a plain one, so nothing ends its work when it is lost.
    let (host, port) = (address.ip(), address.port());
    let write = |who: &str| {
        format!("exec 3<>/dev/tcp/{host}/{port}; while :; do echo {who} >&3; sleep 0.01; done")
    };
    let old_ip = network.ip(1).to_string();
    let words = ["run", "-e", "writer", "--identity", "old", "--value", &old_ip, "--ttl", "2s"];
    let work = write("old");
    let words = [&words[..], &["--on-doubt", "continue", "--", "bash", "-c", &work]].concat();
    let _old = Supervised::start_behind(&network.inside(1), &cluster.endpoints(), &words);
    let wrote = async |who: &str| {
        eventually(&format!("{who} writes"), async || {
            let lines = written.lock().unwrap();
            if lines.iter().any(|line| line == who) { Ok(()) } else { Err("nothing".into()) }
        })
        .await;
    };
    wrote("old").await;

    let cut_off = format!("{bin}/cut-off");
    let work = write("new");
    let words = ["run", "-e", "writer", "--identity", "new", "--fence-cmd", &cut_off, "--"];
    let words = [&words[..], &["bash", "-c", &work]].concat();
    let new = Supervised::start(&cluster.endpoints(), &words);
    new.program.says("waiting for writer").await;
    ctl.run(&["evict", "writer"]).ok();
    new.program.says("fencing old, which did not resign").await;
    wrote("new").await;
    // Long enough for what may still be on its way, as counted by the new one's own writes.
    let count = |who: &str| written.lock().unwrap().iter().filter(|line| *line == who).count();
    eventually("the new one writes on", async || {
        if count("new") > 50 { Ok(()) } else { Err(format!("{}", count("new"))) }
    })
    .await;
    let lines = written.lock().unwrap().clone();
    let first = lines.iter().position(|line| line == "new").unwrap();
    let late = lines[first..].iter().filter(|line| *line == "old").count();
    assert_eq!(late, 0, "the old one wrote after the new one had begun");
    drop(new);
    shell(&format!("nft delete element inet tenure fenced '{{ {old_ip} }}'"));
}
