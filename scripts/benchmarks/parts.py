"""What is measured. Each part answers rows: (what, etcd's figure, tenure's figure, ratio, asked for)."""

import json
import re
import shutil
import signal
import statistics
import subprocess
import time

from .cluster import Cluster


class Row:
    def __init__(self, what, etcd, tenure, ratio, asked, note=""):
        self.what, self.etcd, self.tenure, self.ratio = what, etcd, tenure, ratio
        self.asked, self.note = asked, note

    def cells(self):
        return [self.what, self.etcd, self.tenure, self.ratio, self.asked, self.note]


def median(values):
    return statistics.median(values)


# what, words, figure to compare, asked for
THROUGHPUT = [
    ("put, 1 client", ["put", "--clients", "1"], "operations_per_second", "1.5 ×"),
    ("put, 64 clients", ["put", "--clients", "64"], "operations_per_second", "3 ×"),
    ("put, 256 clients", ["put", "--clients", "256"], "operations_per_second", "3 ×"),
    ("linearizable get, 64 clients", ["get", "--clients", "64"], "operations_per_second", "2.5 ×"),
    (
        "serializable get, 64 clients",
        ["get", "--consistency", "s", "--clients", "64"],
        "operations_per_second",
        "2 × or half the CPU",
    ),
    ("compare-and-swap, 32 clients", ["cas", "--clients", "32"], "operations_per_second", "3 ×"),
    (
        "watch, 100 watchers, events delivered",
        ["watch", "--watchers", "100"],
        "events_per_second",
        "1.5 ×",
    ),
    ("lease grants, 64 clients", ["lease-grant", "--clients", "64"], "operations_per_second", "3 ×"),
    ("lease keepalives", ["lease-keepalive"], "operations_per_second", "1 ×"),
]


def throughput(bench, size):
    """Both clusters stand at the same time; the loads alternate between them."""
    rows = []
    with bench.cluster("tenure", size) as tenure, bench.cluster("etcd", size) as etcd:
        for what, words, figure, asked in THROUGHPUT:
            words = [*words, "--duration", f"{bench.seconds}s"]
            reports = {"tenure": [], "etcd": []}
            for round_number in range(bench.rounds):
                order = [tenure, etcd] if round_number % 2 == 0 else [etcd, tenure]
                for cluster in order:
                    bench.say(f"{size} node(s): {what}: {cluster.kind}")
                    reports[cluster.kind].append(bench.load.run(cluster, words, round_number))
            rows.append(throughput_row(what, reports, figure, asked if size == 3 else ""))
    return rows


def throughput_row(what, reports, figure, asked):
    rate = {kind: median([r[figure] for r in runs]) for kind, runs in reports.items()}
    count = "events" if figure.startswith("events") else "operations"

    def micros(kind, which):
        return median([1e6 * r[which] / max(r[count], 1) for r in reports[kind]])

    note = (
        f"server CPU µs/op {micros('etcd', 'server_cpu_seconds'):.0f} → "
        f"{micros('tenure', 'server_cpu_seconds'):.0f} "
        f"({micros('etcd', 'server_cpu_seconds') / max(micros('tenure', 'server_cpu_seconds'), 0.01):.1f} ×), "
        f"client {micros('etcd', 'client_cpu_seconds'):.0f} → {micros('tenure', 'client_cpu_seconds'):.0f}; "
        f"p50 ms {latency(reports['etcd'], 'p50')} → {latency(reports['tenure'], 'p50')}, "
        f"p99 {latency(reports['etcd'], 'p99')} → {latency(reports['tenure'], 'p99')}"
    )
    errors = sum(sum(r["errors"].values()) for runs in reports.values() for r in runs)
    if errors:
        note += f"; {errors} errors"
    return Row(
        what,
        f"{rate['etcd']:,.0f}/s",
        f"{rate['tenure']:,.0f}/s",
        f"{rate['tenure'] / rate['etcd']:.2f} ×",
        asked,
        note,
    )


def gateway(bench):
    """The same puts as JSON over HTTP/1, at both; alternating, as the loads over gRPC."""
    words = ["put", "--gateway", "--clients", "64", "--duration", f"{bench.seconds}s"]
    rows = []
    for size, asked in ((3, "2 ×"), (1, "")):
        with bench.cluster("tenure", size) as tenure, bench.cluster("etcd", size) as etcd:
            reports = {"tenure": [], "etcd": []}
            for round_number in range(bench.rounds):
                for cluster in [tenure, etcd] if round_number % 2 == 0 else [etcd, tenure]:
                    bench.say(f"{size} node(s): put through the gateway: {cluster.kind}")
                    reports[cluster.kind].append(bench.load.run(cluster, words, round_number))
        what = f"put through the JSON gateway, 64 clients, {size} node(s)"
        rows.append(throughput_row(what, reports, "operations_per_second", asked))
    return rows


def latency(reports, which):
    return f"{median([r['latency_ms'][which] for r in reports]):.2f}"


def flushes(bench):
    """fdatasync calls a second of one put load, counted by strace in a run of its own."""
    if not shutil.which("strace"):
        return [Row("fdatasync per second, put, 64 clients", "", "", "", "", "strace is not installed")]
    figures = {}
    for kind in ("etcd", "tenure"):
        with bench.cluster(kind, 3) as cluster:
            load = bench.load.background(cluster, ["put", "--clients", "64", "--duration", "6s"])
            time.sleep(2)
            pids = [word for member in cluster.members for word in ("-p", str(member.process.pid))]
            counted = subprocess.run(
                ["timeout", "-s", "INT", "2", "strace", "-f", "-c", "-e", "trace=fdatasync,fsync", *pids],
                capture_output=True,
                text=True,
                check=False,
            )
            load.wait()
            calls = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s.*sync", counted.stderr, re.M)
            figures[kind] = sum(int(call) for call in calls) / 2
    return [
        Row(
            "fdatasync per second, all members, put, 64 clients (traced)",
            f"{figures['etcd']:.0f}",
            f"{figures['tenure']:.0f}",
            "",
            "",
            "under strace; only to show that both flush",
        )
    ]


def expiry(bench):
    reports = {}
    for kind in ("etcd", "tenure"):
        with bench.cluster(kind, 3) as cluster:
            bench.say(f"lease expiry: {kind}")
            words = ["lease-expiry", "--keys", "200", "--ttl", "2s"]
            reports[kind] = bench.load.run(cluster, words)["late_ms_after_answer"]
    show = lambda r: f"p50 {r['p50']:.0f} ms, max {r['max']:.0f} ms"
    return [
        Row(
            "lease expiry noticed after the TTL",
            show(reports["etcd"]),
            show(reports["tenure"]),
            f"{reports['etcd']['p50'] / max(reports['tenure']['p50'], 0.1):.0f} ×",
            "≤ 50 ms",
        )
    ]


def gap_after(acks, moment):
    """The longest time without an acknowledgement after the harm. An answer that was already on its
    way when it was done does not end the outage, so the first one after it is not enough."""
    times = sorted(float(line.split()[0]) for line in acks.read_text().splitlines() if line.strip())
    later = [moment] + [t for t in times if t > moment]
    return 1000 * max(b - a for a, b in zip(later, later[1:])) if len(later) > 1 else None


def outages(bench, kind, count, harm, heal, label):
    """Milliseconds from a harm done to the raft leader until the next acknowledged write."""
    gaps = []
    with bench.cluster(kind, 3) as cluster:
        for number in range(count):
            bench.say(f"{label}: {kind} {number + 1}/{count}")
            acks = cluster.root / "acks"
            acks.unlink(missing_ok=True)
            leader = bench.load.leader(cluster)
            load = bench.load.background(
                cluster, ["gap", "--duration", "4s", "--acks", str(acks), "--clients", "6"]
            )
            time.sleep(1.0)
            moment = time.time()
            harm(cluster, leader)
            load.wait()
            gap = gap_after(acks, moment)
            if gap is not None:
                gaps.append(gap)
            heal(cluster, leader)
            cluster.wait_healthy()
    return gaps


def show_outages(gaps):
    return f"median {median(gaps):.0f} ms, worst {max(gaps):.0f} ms" if gaps else "no write in 4 s"


def failover(bench):
    def restart(cluster, leader):
        cluster.start(leader)

    def kill(cluster, leader):
        cluster.kill(leader)

    def stop(cluster, leader):
        leader.process.send_signal(signal.SIGSTOP)

    def go_on(cluster, leader):
        leader.process.send_signal(signal.SIGCONT)

    rows = []
    for label, harm, heal, count, asked in [
        ("kill -9 of the raft leader until the next write", kill, restart, bench.kills, "median ≤ 150 ms, worst ≤ 600 ms"),
        ("raft leader SIGSTOPped until the next write", stop, go_on, max(bench.kills // 4, 2), "≤ 1300 ms"),
    ]:
        etcd = outages(bench, "etcd", max(count // 2, 2), harm, heal, label)
        tenure = outages(bench, "tenure", count, harm, heal, label)
        ratio = f"{median(etcd) / median(tenure):.1f} ×" if etcd and tenure else ""
        rows.append(Row(label, show_outages(etcd), show_outages(tenure), ratio, asked, f"{len(tenure)} times"))
    return rows


def hand_over(bench):
    """SIGTERM of the leader and move-leader under load: the longest time without a write."""
    rows = []
    for label, harm in [
        ("SIGTERM of the raft leader under load", terminate),
        ("move-leader under load", move),
    ]:
        shown = {}
        for kind in ("etcd", "tenure"):
            gaps, failed = [], 0
            for number in range(bench.handovers):
                bench.say(f"{label}: {kind} {number + 1}/{bench.handovers}")
                with bench.cluster(kind, 3) as cluster:
                    leader = bench.load.leader(cluster)
                    load = bench.load.background(cluster, ["gap", "--duration", "3s", "--clients", "6"])
                    time.sleep(1.0)
                    harm(bench, cluster, leader)
                    report = json.loads(load.communicate()[0].strip().splitlines()[-1])
                    gaps.append(report["longest_gap_ms"])
                    failed += report["failed_requests"]
            shown[kind] = f"longest gap: median {median(gaps):.0f} ms, worst {max(gaps):.0f} ms; {failed} requests failed"
        rows.append(Row(label, shown["etcd"], shown["tenure"], "", "≤ 50 ms, none fails"))
    return rows


def terminate(_bench, _cluster, leader):
    leader.process.send_signal(signal.SIGTERM)


def move(bench, cluster, leader):
    target = next(m for m in cluster.members if m is not leader)
    ids = {m.endpoint: e for m, e in zip(cluster.members, bench.load.status(cluster))}
    entry = ids[target.endpoint]
    member_id = entry.get("Status", entry)["header"]["member_id"]
    subprocess.run(
        [bench.etcdctl, "--endpoints", leader.endpoint, "move-leader", f"{member_id:x}"],
        env={"ETCDCTL_API": "3"},
        capture_output=True,
        check=False,
    )


def start(bench):
    """A fresh node until /health is true, and what it weighs when idle."""
    shown = {}
    for kind in ("etcd", "tenure"):
        times, rss = [], []
        for _ in range(bench.starts):
            bench.say(f"start: {kind}")
            cluster = Cluster(kind, bench.binary(kind), 1, bench.root)
            began = time.monotonic()
            with cluster:
                times.append(1000 * (time.monotonic() - began))
                time.sleep(2)
                rss.append(cluster.rss_mb())
        shown[kind] = (median(times), median(rss))
    (etcd_ms, etcd_mb), (ms, mb) = shown["etcd"], shown["tenure"]
    return [
        Row("start of a fresh node until /health is true", f"{etcd_ms:.0f} ms", f"{ms:.0f} ms", f"{etcd_ms / ms:.1f} ×", "≤ 100 ms"),
        Row("idle RSS", f"{etcd_mb:.0f} MB", f"{mb:.0f} MB", f"{etcd_mb / mb:.1f} ×", "≤ 15 MB"),
    ]


def resident_mb(pid):
    line = next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
