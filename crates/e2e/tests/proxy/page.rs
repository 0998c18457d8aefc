//! docs/how-to/fencing-proxy.md, run from top to bottom in one shell, with its addresses replaced by
//! free ones.

use std::{fs, path::Path, process::Command};

use tenure_e2e::{Cluster, Upstream, reserve, tools};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/fencing-proxy.md");
/// Longer than this nothing on the page takes.
const PATIENCE_SECS: &str = "60";

/// The shell blocks of a page, in order.
fn script(page: &str) -> String {
    let mut script = String::from("set -euo pipefail\n");
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => script.extend([line, "\n"]),
            _ => {}
        }
    }
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_page_commands_work() {
    let (upstream, cluster) = (Upstream::start().await, Cluster::start(1).await);
    let free = reserve(2);
    let page = fs::read_to_string(PAGE)
        .unwrap()
        .replace("http://127.0.0.1:9000", &upstream.url)
        .replace("127.0.0.1:8080", &free[0].to_string())
        .replace("127.0.0.1:8081", &free[1].to_string())
        .replace("127.0.0.1:2379", &cluster.endpoints());
    let home = tempfile::TempDir::new().unwrap();
    let folder = tools::tenure().parent().map(Path::to_owned).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("timeout");
    shell.args([PATIENCE_SECS, "bash", "-x", "-c", &script(&page)]).current_dir(home.path());
    shell.env("PATH", path).env("TENURE_ENDPOINTS", cluster.endpoints());
    let said = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    // The page shows the answer to the late write as it is.
    let shown = page.lines().find(|line| line.starts_with("{\"error\":")).unwrap();
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(out.contains(shown), "{out}");
    let written: Vec<_> = upstream.written().into_iter().map(|(_, text)| text).collect();
    assert_eq!(written, ["first", "second"]);
}
