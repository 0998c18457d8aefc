//! docs/OPERATIONS.md, run from top to bottom.
//!
//! Its shell blocks run in one shell against three real members, with the addresses of the page
//! replaced by free ones. A comment `<!-- runbook: kill n3 -->` does what the text takes for granted; any other
//! command after `runbook:` is run as it stands.

use std::{fs, path::Path, process::Command};

use tenure_e2e::{Cluster, Plan, reserve, tools};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATIONS.md");
/// The machines of the page: 10.0.0.1 and so on.
const MACHINES: usize = 9;
/// Longer than this nothing on the page takes.
const PATIENCE_SECS: &str = "120";

/// The shell blocks of a page, in order, with the page's own notes for this test.
fn script(page: &str) -> String {
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => {
                // What a failing command was is seen in its line before.
                if !line.starts_with(' ') {
                    script.push_str(&format!("echo {} >&2\n", quoted(line)));
                }
                script.push_str(line);
                script.push('\n');
            }
            line => {
                let note = line.strip_prefix("<!-- runbook: ");
                match note.and_then(|note| note.strip_suffix(" -->")) {
                    Some(note) if note.starts_with("kill ") => {
                        script.push_str(&format!("kill -9 $pid_{}\n", &note["kill ".len()..]));
                    }
                    Some(command) => script.push_str(&format!("{command}\n")),
                    None => {}
                }
            }
        }
    }
    script
}

fn quoted(line: &str) -> String {
    format!("'+ {}'", line.replace('\'', r"'\''"))
}

#[tokio::test]
async fn every_command_of_the_operations_page_works() {
    let free = reserve(2 * MACHINES);
    let addresses: Vec<_> = free.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let mut page = fs::read_to_string(PAGE).unwrap();
    for (machine, (client, peer)) in addresses.iter().enumerate().rev() {
        let machine = machine + 1;
        page = page.replace(&format!("10.0.0.{machine}:2379"), &client.to_string());
        page = page.replace(&format!("10.0.0.{machine}:2380"), &peer.to_string());
    }
    let plan = Plan { addresses: Some(addresses[..3].to_vec()), ..Plan::default() };
    let cluster = Cluster::with(3, plan).await;
    let client = cluster.client();
    let put = tenure_e2e::pb::PutRequest { key: "old/1".into(), ..Default::default() };
    client.kv().put(put).await.unwrap();

    let home = tempfile::TempDir::new().unwrap();
    let folder = tools::tenure().parent().map(Path::to_owned).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("timeout");
    shell.args([PATIENCE_SECS, "bash", "-c", &script(&page)]).current_dir(home.path());
    shell.env("PATH", path);
    for member in &cluster.members {
        shell.env(format!("pid_{}", member.name), member.pid().to_string());
    }
    let said = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    let last: Vec<_> = errors.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert!(said.status.success(), "{}: {}", said.status, last.join("\n"));
}
