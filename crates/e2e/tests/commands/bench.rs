//! `tenure bench`, against our own members and a real etcd: a short run, and what it reports.

use serde_json::Value;
use tenure_e2e::{Cluster, Ctl, tools};

/// Runs a workload to its end, and answers its report.
fn bench(ctl: &Ctl, workload: &str, more: &[&str]) -> Value {
    let run = ["bench", workload, "-w", "json", "--warm-up", "0s", "--clients", "4"];
    let said = ctl.with_program(tools::tenure()).run(&[&run, more].concat());
    serde_json::from_str(&said.clone().ok()).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn judge(report: &Value, workload: &str, total: u64) {
    // A read also says of which kind.
    assert!(report["workload"].as_str().unwrap().starts_with(workload), "{report}");
    assert_eq!(report["operations"], total, "{report}");
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    assert_eq!(report["clients"], 4, "{report}");
    let figure = |name: &str| report[name].as_f64().unwrap();
    // The time is told in whole milliseconds, and a quick machine needs only a few.
    let seconds = total as f64 / figure("operations_per_second");
    assert!((figure("seconds") - seconds).abs() < 0.001, "{report}");
    let latency = |quantile: &str| report["latency_ms"][quantile].as_f64().unwrap();
    let quantiles = ["p50", "p90", "p99", "p99.9", "max"].map(latency);
    assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bench_measures_a_cluster_of_ours_and_a_real_etcd_alike() {
    let cluster = Cluster::start(3).await;
    for ctl in [Ctl::of(&cluster), Ctl::with_real_etcd().await] {
        for (workload, total) in [("put", "200"), ("get", "200"), ("lock", "40")] {
            let report = bench(&ctl, workload, &["--total", total]);
            judge(&report, workload, total.parse().unwrap());
        }
        let written = ctl.run(&["get", "--prefix", "bench-lock/", "--count-only", "-w", "fields"]);
        assert!(written.ok().contains("\"Count\" : 0"), "no lock is left behind");
    }
}
