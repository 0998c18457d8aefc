"""What a large store costs: puts, backups, a member that joins.

The slowest put of a thousand tells more about the machine than about the server if something else takes the cores
or the disk away. So the windows to compare alternate, medians of them are compared, and beside each stands what the
machine did meanwhile: how late a thread woke that did nothing but sleep for a millisecond.
"""

import contextlib
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from .cluster import Member, free_ports
from .parts import Row, median

# Enough clients that the rate is kept even when some of them wait: with few, one slow put delays the start
# of the next ones and is counted many times.
STEADY = ["put", "--clients", "64", "--rate", "2000", "--key-prefix", "probe/"]
# A snapshot every few seconds, where by default there would be none in so short a time; and CPU time of the core loop.
OFTEN = ["--snapshot-count", "10000", "--metrics", "extensive"]
NAP_SECONDS = 0.001
# What takes longer has failed.
PATIENCE_SECONDS = 120


class Beside:
    """Something that goes on in a thread as long as it is entered."""

    def __init__(self):
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


class Compacting(Beside):
    """Compacts up to the present once a second."""

    def __init__(self, bench, cluster):
        super().__init__()
        self.bench, self.cluster = bench, cluster

    def run(self):
        while not self.done.wait(1):
            try:
                status = self.bench.load.status(self.cluster)[-1]
                revision = status.get("Status", status)["header"]["revision"]
                endpoint = self.cluster.members[-1].endpoint
                words = [self.bench.etcdctl, "--endpoints", endpoint, "compaction", str(revision)]
                subprocess.run(words, env={"ETCDCTL_API": "3"}, capture_output=True, timeout=5, check=False)
            except (ValueError, KeyError, subprocess.TimeoutExpired):
                continue


class Napping(Beside):
    """The machine's own unrest: how late, at worst, a sleeper woke."""

    worst_ms = 0.0

    def run(self):
        while not self.done.is_set():
            before = time.monotonic()
            time.sleep(NAP_SECONDS)
            self.worst_ms = max(self.worst_ms, (time.monotonic() - before - NAP_SECONDS) * 1000)


def metrics(member):
    """Every series of a member's /metrics."""
    with urllib.request.urlopen(f"http://{member.endpoint}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and line[0] != "#"}


class Histogram:
    """A histogram of all members together, from now on."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.before = self.read()

    def read(self):
        found = {}
        for member in self.cluster.members:
            for series, value in metrics(member).items():
                if series.startswith(f"{self.name}_bucket"):
                    bound = float(re.search(r'le="([^"]+)"', series)[1])
                    found[bound] = found.get(bound, 0) + value
        return found

    def counts(self):
        """How many stayed under each bound."""
        return {bound: value - self.before[bound] for bound, value in self.read().items()}


def least_bound(counts):
    """The least bound under which all stayed, in milliseconds."""
    return 1000 * min(bound for bound, value in counts.items() if value == counts[float("inf")])


class Rounds:
    """How long the rounds of the core loops took: by their threads' use of a core, and by the clock."""

    def __init__(self, clusters):
        names = ("tenure_core_round_cpu_seconds", "tenure_core_round_seconds")
        self.by_cpu, self.by_clock = ([Histogram(cluster, name) for cluster in clusters] for name in names)

    def show(self):
        return f"{long_rounds(self.by_cpu)} of CPU time ({long_rounds(self.by_clock)} by the clock)"


def long_rounds(histograms):
    counts = {}
    for histogram in histograms:
        for bound, value in histogram.counts().items():
            counts[bound] = counts.get(bound, 0) + value
    total = counts[float("inf")]
    # The bucket next to 10 ms.
    limit = min((bound for bound in counts if bound >= 0.01), default=float("inf"))
    return f"{total - counts[limit]:.0f} of {total:,.0f} rounds over {limit * 1000:.0f} ms, none over {least_bound(counts):.0f} ms"


class Window:
    """One stretch of steady puts, and the machine meanwhile: cores and disk."""

    def __init__(self, bench, cluster, seconds):
        flushes = Histogram(cluster, "etcd_disk_wal_fsync_duration_seconds")
        with Napping() as machine:
            report = bench.load.run(cluster, [*STEADY, "--duration", f"{seconds}s"])
        self.latency = report["latency_ms"]
        self.worst_nap_ms = machine.worst_ms
        self.worst_flush_ms = least_bound(flushes.counts())


def middle(windows, which):
    return median([window.latency[which] for window in windows])


def shown(windows, *which):
    return ", ".join(f"{name} {middle(windows, name):.2f} ms" for name in which)


def unrest(windows):
    calmest = min(windows, key=lambda window: window.worst_nap_ms)
    return (
        f"{len(windows)} windows; at worst (median) a sleeper woke {median([w.worst_nap_ms for w in windows]):.0f} ms late "
        f"and a flush took {median([w.worst_flush_ms for w in windows]):.0f} ms; in the calmest one {calmest.worst_nap_ms:.0f} and "
        f"{calmest.worst_flush_ms:.0f}, and p99.9 {calmest.latency['p99.9']:.1f} ms, slowest {calmest.latency['max']:.1f} ms"
    )


def expire_all(bench, cluster, count, within):
    """Waits until so many leases have run out, counted by whoever led."""
    began = time.monotonic()
    while time.monotonic() - began < within:
        expired = sum(metrics(m).get("etcd_debugging_server_lease_expired_total", 0) for m in cluster.members)
        if expired >= count:
            return
        time.sleep(0.5)
    bench.say("not all leases ran out in time")


def fill(bench, cluster, keys):
    bench.load.run(
        cluster,
        ["put", "--clients", "256", "--total", str(keys), "--key-space", str(keys), "--sequential", "--warm-up", "0s"],
    )


def grant(bench, cluster, leases, ttl):
    bench.load.run(
        cluster,
        ["lease-grant", "--clients", "256", "--total", str(leases), "--ttl", ttl, "--leave", "--warm-up", "0s"],
    )


def growth(bench):
    """A put with a million keys stored and with 100,000 leases, against the empty store; restart."""
    keys, leases = bench.many_keys, bench.many_leases
    with contextlib.ExitStack() as stack:
        empty, full, leased = (stack.enter_context(bench.cluster("tenure", 3, OFTEN)) for _ in range(3))
        bench.say(f"growth: {keys} keys, twice, and {leases} leases")
        fill(bench, full, keys)
        fill(bench, leased, keys)
        grant(bench, leased, leases, "3600s")
        rounds = Rounds((full, leased))
        windows = {empty: [], full: [], leased: []}
        for _ in range(bench.windows):
            for cluster in windows:
                bench.say("growth: puts")
                with Compacting(bench, cluster):
                    windows[cluster].append(Window(bench, cluster, 2 * bench.seconds))
        bench.say("growth: leases run out together")
        grant(bench, full, leases, "20s")
        expire_all(bench, full, leases, within=120)
        rounds = rounds.show()
        member = full.members[0]
        full.kill(member)
        began = time.monotonic()
        full.start(member)
        full.wait_healthy([member], within=60)
        restarted = time.monotonic() - began
    base, full, leased = windows.values()

    def times(of):
        return ", ".join(f"{name} {middle(of, name) / middle(base, name):.2f} ×" for name in ("p50", "p99.9"))

    def row(what, of):
        against = ("", "") if of is base else (times(of), "within 1.3 ×")
        return Row(f"put at 2000/s, {what}", "", shown(of, "p50", "p99.9"), *against, unrest(of))

    return [
        row("empty store", base),
        row(f"{keys:,} keys stored, snapshots and compaction running", full),
        row(f"{leases:,} leases as well", leased),
        Row(f"the core loops meanwhile, {leases:,} leases running out together too", "", rounds, "", "none over 10 ms"),
        Row(f"kill -9 and restart with {keys:,} keys until /health is true", "", f"{restarted:.2f} s", "", "≤ 3 s"),
    ]


def save(bench, cluster, file):
    """Seconds that a backup from the raft leader took."""
    began = time.monotonic()
    leader = bench.load.leader(cluster).endpoint
    words = [bench.tenure, "--endpoints", leader, "snapshot", "save", str(file)]
    subprocess.run(words, capture_output=True, timeout=120, check=True)
    return time.monotonic() - began


def while_saving(bench, cluster, file):
    """A window in which a backup begins after a second, and how long that took."""
    took = []

    def begin():
        time.sleep(1)
        took.append(save(bench, cluster, file))

    saver = threading.Thread(target=begin)
    saver.start()
    window = Window(bench, cluster, 2 * bench.seconds)
    saver.join()
    return window, took[0]


def restored(bench, file):
    """Seconds from a backup to a member that serves it."""
    began = time.monotonic()
    with bench.cluster("tenure", 1, begin=False) as cluster:
        member = cluster.members[0]
        words = [bench.tenure, "snapshot", "restore", str(file), "--data-dir", str(member.folder), "--name", member.name]
        words += ["--initial-cluster", cluster.everybody(), "--initial-advertise-peer-urls", member.peer_url]
        subprocess.run(words, capture_output=True, timeout=120, check=True)
        cluster.start(member)
        cluster.wait_healthy()
        return time.monotonic() - began


def backup(bench):
    """Puts while a backup of a million keys is saved, elsewhere and on the disk of the log; restoring it."""
    keys = bench.many_keys
    elsewhere, same = Path("/dev/shm/tenure-bench.db"), Path(bench.root) / "backup.db"
    alone, saving, beside, took = [], [], [], []
    try:
        with bench.cluster("tenure", 3) as cluster:
            bench.say(f"backup: {keys} keys")
            fill(bench, cluster, keys)
            for _ in range(bench.windows):
                bench.say("backup: puts alone, and while saving")
                alone.append(Window(bench, cluster, 2 * bench.seconds))
                for file, windows in ((elsewhere, saving), (same, beside)):
                    # To a new name: the filesystem gives an old file's blocks back all at once, whoever deletes it.
                    file.unlink(missing_ok=True)
                    window, seconds = while_saving(bench, cluster, file)
                    windows.append(window)
                    took.append(seconds)
        until_served = restored(bench, same)
    finally:
        for file in (elsewhere, same):
            file.unlink(missing_ok=True)

    def row(what, windows, asked):
        ratio = f"p99.9 {middle(windows, 'p99.9') / middle(alone, 'p99.9'):.2f} ×" if asked else ""
        return Row(f"put at 2000/s, {keys:,} keys stored, {what}", "", shown(windows, "p50", "p99.9", "max"), ratio, asked, unrest(windows))

    return [
        row("no backup", alone, ""),
        row("while one is saved from the raft leader to another device", saving, "none slower than 20 ms"),
        row("while one is saved to the disk of all three logs", beside, "none slower than 20 ms"),
        Row("how long saving took", "", f"median {median(took):.1f} s", "", ""),
        Row("restored and serving", "", f"{until_served:.2f} s", "", "≤ 5 s", "one member; each makes its own directory"),
    ]


def revision(bench, member):
    """The last revision that this member has applied. Through the gateway: a command for each look would cost more than what is looked at."""
    asked = urllib.request.Request(f"{member.client_url}/v3/kv/range", data=b'{"key":"bm9uZQ==","serializable":true}')
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(json.load(answer)["header"]["revision"])
    except (OSError, KeyError):
        return 0


class Pace:
    """Writes a second, counted by revisions, from now on."""

    def __init__(self, bench, member):
        self.bench, self.member = bench, member
        self.began, self.first = time.monotonic(), revision(bench, member)

    def rate(self):
        return (revision(self.bench, self.member) - self.first) / (time.monotonic() - self.began)


def join(bench, cluster):
    """A fourth member with an empty directory; seconds until it has applied all that was there when it came."""
    client, peer = free_ports(2)
    member = Member(f"{cluster.kind}3", client, peer, cluster.root / "3")
    words = [bench.tenure, "--endpoints", cluster.endpoints, "member", "add", member.name]
    subprocess.run([*words, "--learner", f"--peer-urls={member.peer_url}"], capture_output=True, timeout=30, check=True)
    goal = revision(bench, cluster.members[0])
    cluster.members.append(member)
    began = time.monotonic()
    cluster.start(member, ["--initial-cluster-state", "existing"])
    while revision(bench, member) < goal:
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise TimeoutError("the new member does not catch up")
        time.sleep(0.2)
    return time.monotonic() - began


def leave(bench, cluster):
    """Takes the fourth member out again."""
    member = cluster.members.pop()
    say = [bench.tenure, "--endpoints", cluster.endpoints, "-w", "json", "member"]
    listed = json.loads(subprocess.run([*say, "list"], capture_output=True, text=True, timeout=30, check=True).stdout)
    number = next(one["ID"] for one in listed["members"] if member.peer_url in one["peerURLs"])
    subprocess.run([*say, "remove", f"{number:x}"], capture_output=True, timeout=30, check=True)
    cluster.kill(member)
    shutil.rmtree(member.folder)


def forget(bench, cluster):
    """Compacts all history away, so that the next member is sent no more than the one before."""
    member = cluster.members[0]
    words = [bench.tenure, "--endpoints", member.endpoint, "compact", str(revision(bench, member)), "--physical"]
    subprocess.run(words, capture_output=True, timeout=60, check=True)


def joining(bench):
    """A member joins a cluster with a million keys under full load."""
    keys = bench.many_keys
    alone, during, took = [], [], []
    with bench.cluster("tenure", 3) as cluster:
        bench.say(f"joining: {keys} keys")
        fill(bench, cluster, keys)
        for _ in range(bench.windows):
            bench.say("joining: puts alone, and while a member joins")
            words = ["put", "--clients", "64", "--duration", f"{PATIENCE_SECONDS}s", "--key-prefix", "probe/"]
            load = bench.load.background(cluster, words)
            time.sleep(2)
            pace = Pace(bench, cluster.members[0])
            time.sleep(bench.seconds)
            alone.append(pace.rate())
            pace = Pace(bench, cluster.members[0])
            took.append(join(bench, cluster))
            during.append(pace.rate())
            load.kill()
            load.wait()
            leave(bench, cluster)
            forget(bench, cluster)
    loss = 1 - median(during) / median(alone)
    what = f"a fourth member joins {keys:,} keys under load, 64 clients"
    return [
        Row(f"{what}: until caught up", "", f"median {median(took):.1f} s, worst {max(took):.1f} s", "", "≤ 10 s", f"{len(took)} times"),
        Row(
            f"{what}: writes", "", f"{median(alone):,.0f}/s → {median(during):,.0f}/s", f"{loss:.0%} less" if loss > 0 else "no loss", "less than 20 %",
            "the new member runs on the same two cores",
        ),
    ]
