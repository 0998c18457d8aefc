//! `tenure fence` in front of a real service: which requests are admitted, which are not, and what each is told.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tenure_e2e::{Certs, Cluster, Fence, Program, Upstream, eventually, pb, tools};
use tokio::io::AsyncReadExt;

const FOREVER: &str = "9223372036854775807";

/// A proxy that believes every token, with its file in `home`.
async fn fence(upstream: &Upstream, home: &TempDir, flags: &[&str]) -> Fence {
    let state = home.path().join("gate");
    let state = state.to_str().unwrap();
    let ours = ["--upstream", &upstream.url, "--state", state, "--no-cluster", "--tell-tokens"];
    Fence::start(&[&ours, flags].concat()).await
}

fn token(token: &str) -> [(&str, &str); 1] {
    [("Fencing-Token", token)]
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_answers_as_its_table_says() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let fence = fence(&upstream, &home, &[]).await;

    // A write needs a token, a read does not.
    for method in ["PUT", "POST", "PATCH", "DELETE", "PURGE"] {
        let answer = fence.send(method, "/value", &[], "x").await;
        assert_eq!(answer.status, 428, "{method}");
        assert!(answer.json()["next"].as_str().unwrap().contains("token"));
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        assert_eq!(fence.send(method, "/value", &[], "").await.status, 200, "{method}");
    }
    assert_eq!(upstream.written(), []);

    // The newest token is admitted, with reads as well; older ones are told which token replaced them.
    assert_eq!(fence.put("/value", 33, "a").await.status, 200);
    assert_eq!(fence.put("/value", 33, "b").await.status, 200, "the same holder again");
    assert_eq!(fence.send("GET", "/value", &token("34"), "").await.body, "b");
    for method in ["PUT", "GET"] {
        let late = fence.send(method, "/value", &token("33"), "late").await;
        assert_eq!((late.status, late.header("fencing-token")), (409, Some("34")), "{method}");
        let json = late.json();
        assert_eq!((json["token"].as_i64(), json["in_force"].as_i64()), (Some(33), Some(34)));
        assert!(json["next"].as_str().unwrap().starts_with("stop"), "{json}");
    }

    // What is no token, or two of them.
    for bad in ["", "0", "-1", "07", "seven", "1e3", "33 ", "9223372036854775808"] {
        let answer = fence.send("PUT", "/value", &token(bad), "x").await;
        let expected = if bad == "33 " { 409 } else { 400 };
        assert_eq!(answer.status, expected, "{bad:?}: {}", answer.body);
        assert_eq!(answer.header("fencing-token"), Some("34"), "{bad:?}");
    }
    let twice = [("Fencing-Token", "34"), ("Fencing-Token", "34")];
    assert_eq!(fence.send("PUT", "/value", &twice, "x").await.status, 400);
    assert_eq!(fence.send("GET", "/value", &token("x"), "").await.status, 400);

    // Leaving HTTP is not possible; an offer of HTTP/2 is passed over.
    let leave = |to| [("Connection", "upgrade"), ("Upgrade", to)];
    assert_eq!(fence.send("GET", "/value", &leave("websocket"), "").await.status, 501);
    assert_eq!(fence.send("GET", "/value", &leave("h2c"), "").await.status, 200);

    let written: Vec<_> = upstream.written().into_iter().map(|(_, text)| text).collect();
    assert_eq!(written, ["a", "b"]);
    assert_eq!(fence.metric("tenure_fence_refused_total{reason=\"no_token\"}").await, 5.0);
    assert_eq!(fence.metric("tenure_fence_refused_total{reason=\"stale\"}").await, 3.0);
    assert_eq!(fence.metric("tenure_fence_refused_total{reason=\"bad_token\"}").await, 9.0);
    assert_eq!(fence.metric("tenure_fence_admitted_total").await, 3.0);
    assert_eq!(fence.metric("tenure_fence_passed_total").await, 5.0);
    assert_eq!(fence.metric("tenure_fence_raised_total").await, 2.0);
    assert_eq!(fence.metric("tenure_fence_state_write_seconds_count").await, 2.0);
    assert_eq!(fence.metric("tenure_fence_in_flight").await, 0.0);
    assert!(fence.health().await.0.contains(" 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_takes_headers_and_reads_as_the_flags_say() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let flags = ["--header", "X-Epoch", "--reads-need-token", "--resource-header", "X-Shard"];
    let fence = fence(&upstream, &home, &flags).await;
    let send = async |method, epoch: &str, shard: &str| {
        let headers = [("X-Epoch", epoch), ("X-Shard", shard)];
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        fence.send(method, "/value", &headers, "x").await
    };
    assert_eq!(send("GET", "", "a").await.status, 428);
    assert_eq!(fence.put("/value", 7, "x").await.status, 428, "that is another header");
    assert_eq!(send("PUT", "7", "").await.status, 400, "for which shard?");
    assert_eq!(send("PUT", "7", "a").await.status, 200);
    assert_eq!(send("PUT", "3", "b").await.status, 200, "shards do not know each other");
    let late = send("PUT", "6", "a").await;
    assert_eq!((late.status, late.header("x-epoch")), (409, Some("7")));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_takes_the_resource_from_the_path_and_limits_their_number() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let flags = ["--resource-path", "2", "--resources-max", "2"];
    let fence = fence(&upstream, &home, &flags).await;
    assert_eq!(fence.put("/shards/1/rows/9", 8, "x").await.status, 200);
    assert_eq!(fence.put("/shards/2/rows/9", 5, "x").await.status, 200);
    assert_eq!(fence.put("/shards/1/other", 7, "x").await.status, 409);
    // Other names for the same thing are no way in.
    assert_eq!(fence.put("/shards/%31/rows/9", 7, "x").await.status, 409);
    for two_ways in ["/shards/2/../1/rows", "//shards/1/x", "/shards%2f1/x", "/shards/./1"] {
        assert_eq!(fence.put(two_ways, 7, "x").await.status, 400, "{two_ways}");
    }
    let full = fence.put("/shards/3/x", 9, "x").await;
    assert_eq!((full.status, full.header("retry-after")), (503, None), "{}", full.body);
    let long = format!("/{}/x", "n".repeat(300));
    assert_eq!(fence.put(&long, 9, "x").await.status, 400);
    assert_eq!(upstream.written().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_lets_a_newer_holder_wait_for_an_older_write_and_admits_none_older_meanwhile() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let fence = Arc::new(fence(&upstream, &home, &["--patience", "20s"]).await);
    let older = tokio::spawn({
        let fence = Arc::clone(&fence);
        async move { fence.put("/slow", 1, "old").await.status }
    });
    upstream.has_begun("/slow", 1).await;
    let newer = tokio::spawn({
        let fence = Arc::clone(&fence);
        async move { fence.put("/value", 2, "new").await.status }
    });
    eventually("the newer one has closed the gate", async || {
        // The same token may do several things at once, so it has to be an older one.
        match fence.send("GET", "/value", &token("1"), "").await.status {
            409 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    assert_eq!(fence.put("/value", 1, "late").await.status, 409);
    assert!(!newer.is_finished() && upstream.written().is_empty());
    upstream.let_go();
    assert_eq!((older.await.unwrap(), newer.await.unwrap()), (200, 200));
    let written = [("1".to_owned(), "old".to_owned()), ("2".to_owned(), "new".to_owned())];
    assert_eq!(upstream.written(), written);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_answers_503_to_a_newer_holder_while_an_older_write_does_not_end() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let fence = Arc::new(fence(&upstream, &home, &["--patience", "100ms"]).await);
    let older = tokio::spawn({
        let fence = Arc::clone(&fence);
        async move { fence.put("/slow", 1, "old").await.status }
    });
    upstream.has_begun("/slow", 1).await;
    let not_yet = fence.put("/value", 2, "new").await;
    assert_eq!((not_yet.status, not_yet.header("retry-after")), (503, Some("1")));
    assert_eq!(not_yet.header("fencing-token"), Some("2"), "older ones are refused already");
    assert_eq!(fence.put("/value", 1, "late").await.status, 409);
    assert_eq!(fence.metric("tenure_fence_in_flight").await, 1.0);
    upstream.let_go();
    assert_eq!(older.await.unwrap(), 200);
    eventually("the newer one comes in", async || {
        match fence.put("/value", 2, "new").await.status {
            200 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    assert_eq!(upstream.written()[0].1, "old");
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_knows_the_tokens_it_has_seen_after_kill_9() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    for newest in [34, 35, 36] {
        let mut proxy = fence(&upstream, &home, &[]).await;
        assert_eq!(proxy.put("/value", newest, "new").await.status, 200);
        proxy.program.kill();
        let mut proxy = fence(&upstream, &home, &["--state-must-exist"]).await;
        let late = proxy.put("/value", newest - 1, "late").await;
        assert_eq!((late.status, late.json()["in_force"].as_i64()), (409, Some(newest)));
        assert_eq!(proxy.put("/value", newest, "again").await.status, 200);
        proxy.program.kill();
    }
    assert!(upstream.written().iter().all(|(_, text)| text != "late"));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_on_a_file_in_use_does_not_start() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let first = fence(&upstream, &home, &[]).await;
    let state = home.path().join("gate");
    let state = state.to_str().unwrap();
    let mut second = Fence::spawn(&["--upstream", &upstream.url, "--state", state, "--no-cluster"]);
    assert_eq!(second.ends().await.code(), Some(1));
    second.says("is in use: two gates over one file would not see each other's tokens").await;
    assert_eq!(first.put("/value", 1, "x").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_refuses_flags_that_cannot_be_meant() {
    let home = TempDir::new().unwrap();
    let state = home.path().join("gate");
    let state = state.to_str().unwrap();
    let refused = async |flags: &[&str], code: i32, said: &str| {
        let mut proxy = Fence::spawn(flags);
        assert_eq!(proxy.ends().await.code(), Some(code), "{flags:?}");
        proxy.says(said).await;
    };
    let upstream = ["--upstream", "http://127.0.0.1:1"];
    refused(&upstream, 2, "--state").await;
    refused(&["--upstream", "ftp://h", "--state", state], 2, "--upstream").await;
    let lost = ["--state", state, "--state-must-exist", "--no-cluster"];
    refused(&[&upstream[..], &lost].concat(), 1, "does not exist").await;
    std::fs::write(state, "tenuregt and then garbage").unwrap();
    let damaged = ["--state", state, "--no-cluster"];
    refused(&[&upstream[..], &damaged].concat(), 1, "has version").await;
}

async fn revision(cluster: &Cluster) -> i64 {
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    cluster.client().kv().put(put).await.unwrap().header.unwrap().revision
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_is_not_shut_by_a_token_that_the_cluster_never_gave() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let cluster = Cluster::start(1).await;
    let state = home.path().join("gate");
    let state = state.to_str().unwrap();
    let endpoints = cluster.endpoints();
    let flags = ["--upstream", &upstream.url, "--state", state, "--endpoints", &endpoints];
    let fence = Fence::start(&flags).await;
    let now = revision(&cluster).await;
    let invented = fence.send("PUT", "/value", &token(FOREVER), "x").await;
    assert_eq!(invented.status, 400);
    // A stranger learns neither which token would do nor how far the cluster has come.
    assert_eq!(invented.json()["revision"].as_i64(), None);
    assert_eq!(invented.json()["error"], format!("token {FOREVER} was never given"));
    assert_eq!(fence.put("/value", now + 1, "x").await.status, 400, "not yet given");
    assert_eq!(fence.put("/value", now, "x").await.status, 200);
    // A holder that came since is known as soon as it shows itself.
    let newer = revision(&cluster).await;
    assert_eq!(fence.put("/value", newer, "x").await.status, 200);
    assert_eq!(fence.put("/value", now, "x").await.status, 409);
    assert_eq!(fence.metric("tenure_fence_refused_total{reason=\"never_given\"}").await, 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_lets_the_holder_go_on_and_admits_none_newer_while_the_cluster_is_away() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let mut cluster = Cluster::start(1).await;
    let state = home.path().join("gate");
    let state = state.to_str().unwrap();
    let endpoints = cluster.endpoints();
    let times = ["--command-timeout", "300ms", "--endpoints", &endpoints];
    let flags = [&["--upstream", &upstream.url, "--state", state][..], &times].concat();
    let now = revision(&cluster).await;
    let mut proxy = Fence::start(&flags).await;
    assert_eq!(proxy.put("/value", now, "x").await.status, 200);
    let newer = revision(&cluster).await;
    cluster.members[0].kill();
    for restarted in [false, true] {
        if restarted {
            proxy.program.kill();
            proxy = Fence::start(&flags).await;
            proxy.program.says("until the cluster can be asked").await;
        }
        let unknown = proxy.put("/value", newer, "x").await;
        assert_eq!((unknown.status, unknown.header("retry-after")), (503, Some("1")));
        assert_eq!(proxy.send("PUT", "/value", &token(FOREVER), "x").await.status, 503);
        assert_eq!(proxy.put("/value", now, "x").await.status, 200, "the gate was not raised");
        assert_eq!(proxy.put("/value", now - 1, "x").await.status, 409);
    }
    cluster.members[0].start();
    cluster.members[0].ready().await;
    eventually("the newer one comes in", async || {
        match proxy.put("/value", newer, "x").await.status {
            200 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
}

/// Any client can make the cluster give a revision, by a put.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_takes_tokens_of_its_elections_holders_only() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let cluster = Cluster::start(1).await;
    let state = home.path().join("gate");
    let (state, endpoints) = (state.to_str().unwrap(), cluster.endpoints());
    let flags = ["--upstream", &upstream.url, "--state", state, "--endpoints", &endpoints];
    let named = ["--election", "{resource}", "--resource-path", "1", "--resource", "jobs"];
    let fence = Fence::start(&[&flags[..], &named].concat()).await;
    let (alice, held) = leader(&cluster, "alice").await;
    let (_other, _waits) = (revision(&cluster).await, revision(&cluster).await);
    let newer = revision(&cluster).await;
    let raised = fence.put("/jobs", newer, "x").await;
    assert_eq!(raised.status, 409, "{}", raised.body);
    assert_eq!(fence.metric("tenure_fence_refused_total{reason=\"not_held\"}").await, 1.0);
    assert_eq!(fence.put("/jobs", held, "of alice").await.status, 200);
    assert_eq!(fence.put("/other", held, "x").await.status, 400, "no such resource");
    assert_eq!(fence.put("/jobs", newer, "x").await.status, 409);
    assert_eq!(fence.put("/jobs", held, "of alice").await.status, 200, "the gate was not raised");
    drop(alice);
    let (_bob, next) = leader(&cluster, "bob").await;
    assert_eq!(fence.put("/jobs", next, "of bob").await.status, 200);
    assert_eq!(fence.put("/jobs", held, "late").await.status, 409);
}

/// `tenure elect` until it leads: the process, and its token.
async fn leader(cluster: &Cluster, identity: &str) -> (Program, i64) {
    let mut command = Command::new(tools::tenure());
    command.args(["--endpoints", &cluster.endpoints(), "elect", "jobs", "--ttl", "1s"]);
    command.args(["--identity", identity]).stderr(Stdio::inherit());
    let program = Program::start(identity, &mut command);
    let said = program.says("leading jobs with token ").await;
    let token = said.rsplit(' ').next().unwrap().parse().unwrap();
    (program, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_refuses_the_write_of_a_leader_that_was_paused() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let cluster = Cluster::start(3).await;
    let state = home.path().join("gate");
    let (state, endpoints) = (state.to_str().unwrap(), cluster.endpoints());
    let flags = ["--upstream", &upstream.url, "--state", state, "--endpoints", &endpoints];
    let fence = Fence::start(&flags).await;
    let (paused, old) = leader(&cluster, "alice").await;
    assert_eq!(fence.put("/value", old, "of alice").await.status, 200);
    paused.pause();
    let (_next, new) = leader(&cluster, "bob").await;
    assert!(new > old);
    assert_eq!(fence.put("/value", new, "of bob").await.status, 200);
    // What alice was about to write when she was paused.
    let late = fence.put("/value", old, "late").await;
    assert_eq!((late.status, late.header("fencing-token")), (409, None));
    assert!(late.json()["in_force"].is_null() && !late.body.contains(&new.to_string()));
    assert_eq!(fence.get("/value").await.body, "of bob");
    paused.resume();
}

/// How many threads of a process are not traced.
fn untraced(pid: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = threads.filter_map(|it| std::fs::read_to_string(it.path().join("status")).ok());
    status.filter(|status| status.contains("TracerPid:\t0\n")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_whose_disk_fails_closes_the_gate_and_says_so() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let mut proxy = fence(&upstream, &home, &["--patience", "15s"]).await;
    assert_eq!(proxy.put("/value", 7, "good").await.status, 200);
    let pid = proxy.program.pid();
    let mut command = Command::new(tools::system("strace", "strace"));
    command.args(["-q", "-f", "-o", "/dev/null", "-p", &pid.to_string()]);
    command.args(["-e", "trace=fsync", "-e", "inject=fsync:error=EIO"]);
    let mut tracer = Program::start("strace", &mut command);
    eventually("strace has all threads", async || match untraced(pid) {
        0 => Ok(()),
        threads => Err(format!("{threads} are free")),
    })
    .await;
    assert_eq!(proxy.put("/value", 8, "lost").await.status, 503);
    tracer.ask_to_stop();
    tracer.ends().await;
    assert_eq!(proxy.put("/value", 7, "no").await.status, 503, "never again");
    assert_eq!(proxy.get("/value").await.body, "good", "reads pass");
    let (status, text) = proxy.health().await;
    assert!(status.contains(" 503 ") && text.contains("closed for good"), "{status} {text}");
    assert_eq!(proxy.metric("tenure_fence_broken").await, 1.0);
    proxy.program.kill();
    assert!(Path::new(&home.path().join("gate")).exists());
    let proxy = fence(&upstream, &home, &[]).await;
    assert_eq!(proxy.put("/value", 6, "stale").await.status, 409);
    assert_eq!(proxy.put("/value", 8, "good").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_stops_when_what_is_under_way_has_ended() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let mut proxy = fence(&upstream, &home, &[]).await;
    let address = proxy.address.clone();
    let writing = async { proxy.put("/slow", 1, "whole").await };
    let stopping =
        async {
            upstream.has_begun("/slow", 1).await;
            proxy.program.ask_to_stop();
            eventually("no more connections are taken", async || {
                match tokio::net::TcpStream::connect(&address).await {
                    Err(_) => Ok(()),
                    Ok(_) => Err("still listening".to_owned()),
                }
            })
            .await;
            upstream.let_go();
        };
    let (written, ()) = tokio::join!(writing, stopping);
    assert_eq!((written.status, written.body.as_str()), (200, "written at last\n"));
    assert_eq!(proxy.program.ends().await.code(), Some(0));
    assert_eq!(upstream.written().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_ends_at_once_by_a_second_signal_or_the_end_of_grace() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    for (grace, code) in [("1h", 130), ("50ms", 1)] {
        let mut proxy = fence(&upstream, &home, &["--grace", grace]).await;
        let begun = upstream.begun("/slow");
        let stream = tokio::net::TcpStream::connect(&proxy.address).await.unwrap();
        let head = "PUT /slow HTTP/1.1\r\nhost: h\r\nfencing-token: 1\r\ncontent-length: 0\r\n\r\n";
        stream.writable().await.unwrap();
        assert_eq!(stream.try_write(head.as_bytes()).unwrap(), head.len());
        upstream.has_begun("/slow", begun + 1).await;
        proxy.program.ask_to_stop();
        proxy.program.says("stopping").await;
        if code == 130 {
            proxy.program.ask_to_stop();
        }
        assert_eq!(proxy.program.ends().await.code(), Some(code));
        tokio::time::timeout(Duration::from_secs(20), stream.readable()).await.unwrap().unwrap();
    }
}

/// One proxy before another: the first speaks TLS to the second, which demands a certificate of it.
#[tokio::test(flavor = "multi_thread")]
async fn fence_proxy_speaks_tls_to_its_clients_and_to_its_upstream() {
    let (upstream, certs) = (Upstream::start().await, Certs::new());
    let text = |path: &Path| path.display().to_string();
    let (ca, inner_pair, outer_pair) =
        (text(&certs.ca()), certs.pair("inner", &[]), certs.pair("outer", &[]));
    let home = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let cert = ["--listen-cert", &text(&inner_pair.cert), "--listen-key", &text(&inner_pair.key)];
    let inner =
        fence(&upstream, &home[0], &[&cert[..], &["--listen-client-ca", &ca]].concat()).await;
    let port = inner.address.rsplit_once(':').unwrap().1;
    let mut at = upstream.clone();
    at.url = format!("https://127.0.0.1:{port}");
    let trust = ["--upstream-cacert", &ca];
    let shows =
        ["--upstream-cert", &text(&outer_pair.cert), "--upstream-key", &text(&outer_pair.key)];
    {
        let outer = fence(&at, &home[1], &[&trust[..], &shows].concat()).await;
        assert_eq!(outer.put("/value", 33, "secret").await.status, 200);
        assert_eq!(outer.get("/value").await.body, "secret");
        assert_eq!(outer.put("/value", 32, "late").await.status, 409);
        let mut clear = inner.raw("GET /value HTTP/1.1\r\nHost: shop\r\n\r\n").await;
        let mut answer = Vec::new();
        let _ = clear.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    }
    let stranger = fence(&at, &home[1], &trust).await;
    assert_eq!(stranger.get("/value").await.status, 502, "it shows no certificate");
    let elsewhere = Certs::new();
    drop(stranger);
    let astray = ["--upstream-cacert", &text(&elsewhere.ca())];
    let astray = fence(&at, &home[1], &[&astray[..], &shows].concat()).await;
    assert_eq!(astray.get("/value").await.status, 502, "the upstream is another one");
}
