"""Locks and elections: through etcd's services at both, and what only tenure can do."""

import json
import select
import signal
import subprocess
import time

from .parts import Row, median, resident_mb, throughput_row

# Of the election whose leader and whose raft leader die one after the other.
BOTH_DEAD_TTL = 5
LIVE_SESSIONS = 20


def elections(bench):
    """Locks and elections: through etcd's services at both, and what only tenure can do."""
    rows = []
    with bench.cluster("tenure", 3) as tenure, bench.cluster("etcd", 3) as etcd:
        for what, words, asked in [
            ("lock + unlock, 1 worker", ["lock"], "2 ×, aim 2.5 ×"),
            ("lock + unlock, 16 workers on 4 locks", ["lock", "--clients", "16", "--locks", "4"], "50 ×"),
        ]:
            words = [*words, "--duration", f"{bench.seconds}s"]
            reports = {"tenure": [], "etcd": []}
            for round_number in range(bench.rounds):
                for cluster in [tenure, etcd] if round_number % 2 == 0 else [etcd, tenure]:
                    bench.say(f"{what}: {cluster.kind}")
                    reports[cluster.kind].append(bench.load.run(cluster, words, round_number))
            rows.append(throughput_row(what, reports, "operations_per_second", asked))
        for what, by, asked in [
            ("resign until the next leader is told", "resign", "median ≤ 1/3, p99 ≤ 1/5"),
            ("lease revoked until the next leader is told", "revoke", "≤ 1/3"),
        ]:
            reports = {"tenure": [], "etcd": []}
            for round_number in range(bench.rounds):
                for cluster in [tenure, etcd] if round_number % 2 == 0 else [etcd, tenure]:
                    bench.say(f"{what}: {cluster.kind}")
                    words = ["hand-over", "--by", by, "--rounds", str(bench.relays)]
                    reports[cluster.kind].append(bench.load.run(cluster, words, round_number))
            rows.append(relay_row(what, reports, asked))
        for what, by, rounds, ttl, asked in [
            ("transfer to a named successor: nobody leads for", "transfer", bench.relays, "10s", "median ≤ 20 ms"),
            ("leader's process killed, fast release, TTL 60 s", "death", bench.kills, "60s", "median ≤ 100 ms"),
            ("leader's process stopped, TTL 2 s", "silence", max(bench.kills // 4, 2), "2s", "≤ 2100 ms"),
        ]:
            bench.say(what)
            words = ["hand-over", "--by", by, "--rounds", str(rounds), "--ttl", ttl]
            latency = bench.load.run(tenure, words)["latency_ms"]
            shown = f"p50 {latency['p50']:.1f} ms, max {latency['max']:.1f} ms"
            rows.append(Row(what, "cannot", shown, "", asked, f"{rounds} times"))
        rows.append(crowd(bench, tenure))
        rows.append(many_leases(bench, [tenure, etcd]))
        rows.append(many_sessions(bench, tenure))
    rows.append(both_dead(bench))
    return rows


def crowd(bench, cluster):
    """10,000 elections with 3 candidates each on 3,000 sessions, and nothing happens."""
    bench.say("a crowd that only lives")
    seconds = 10 if bench.rounds == 1 else 30
    words = ["crowd", "--duration", f"{seconds}s"]
    load = subprocess.Popen(
        bench.load.command(cluster, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in load.stderr:
        if "all candidates wait" in line:
            break
    time.sleep(2)
    before, at = cluster.cpu_seconds(), time.monotonic()
    time.sleep(seconds - 4)
    cpu = (cluster.cpu_seconds() - before) / (time.monotonic() - at) / len(cluster.members)
    resident = max(resident_mb(member.process.pid) for member in cluster.members)
    load.communicate(timeout=120)
    shown = f"{resident:.0f} MB, {100 * cpu:.0f} % of a core a member"
    what = "10,000 elections, 3 candidates each, 3,000 sessions, TTL 10 s, idle"
    return Row(what, "", shown, "", "≤ 200 MB, ≤ 10 % of a core", "all sessions lived" if load.returncode == 0 else "sessions were lost")


def until_said(process, words):
    """Reads what a load says until it says this, or ends."""
    heard = ""
    for line in process.stderr:
        if words in line:
            return
        heard += line
    raise RuntimeError(f"the load did not say that {words}: {heard.strip()}")


def many_leases(bench, clusters):
    """Leases that are renewed as clients do it: three times in their time to live."""
    # Granting must be done before the first of them runs out.
    leases, streams, ttl, seconds = bench.many_leases, 100, 30, 6 if bench.rounds == 1 else 20
    what = f"{leases:,} leases kept alive over {streams} streams, TTL {ttl} s"
    cpu, kept = {}, {}
    for cluster in clusters:
        bench.say(f"{what}: {cluster.kind}")
        words = ["lease-keepalive", "--leases", str(leases), "--clients", str(streams), "--ttl", f"{ttl}s"]
        words += ["--rate", str(3 * leases / ttl), "--duration", f"{seconds}s"]
        load = subprocess.Popen(
            bench.load.command(cluster, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until_said(load, "the leases are granted")
        time.sleep(2)
        before, at = cluster.cpu_seconds_each(), time.monotonic()
        time.sleep(seconds - 3)
        spent = [b - a for a, b in zip(before, cluster.cpu_seconds_each())]
        cpu[cluster.kind] = [one / (time.monotonic() - at) for one in spent]
        report = json.loads(load.communicate(timeout=300)[0].strip().splitlines()[-1])
        kept[cluster.kind] = f"{report['operations_per_second']:.0f} renewals/s, {sum(report['errors'].values())} failed"

    def shown(kind):
        return f"{100 * max(cpu[kind]):.0f} % of a core the busiest member, {100 * sum(cpu[kind]):.0f} % all"

    note = f"{kept['etcd']} → {kept['tenure']}; etcd does not replicate renewals"
    ratio = f"{max(cpu['etcd']) / max(cpu['tenure']):.1f} ×"
    return Row(what, shown("etcd"), shown("tenure"), ratio, "≤ 50 % of a core", note)


def many_sessions(bench, cluster):
    """Sessions of the library, a third of which lose their member at once, and all the raft leader."""
    # Each has connections of its own, and a process may open only so many.
    processes, ttl, seconds = 4, 10, 15
    each = bench.many_sessions // processes
    what = f"{processes * each:,} sessions, TTL {ttl} s, the raft leader killed: sessions lost"
    bench.say(what)
    loads = []
    for waits_for in reversed(range(processes)):
        # One after the other; the first must live until the last has opened all of its sessions.
        words = ["sessions", "--sessions", str(each), "--ttl", f"{ttl}s", "--duration", f"{seconds * (1 + waits_for)}s"]
        load = subprocess.Popen(
            bench.load.command(cluster, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        loads.append(load)
        until_said(load, "all sessions are open")
    time.sleep(1)
    leader = bench.load.leader(cluster)
    cluster.kill(leader)
    reports = [json.loads(load.communicate(timeout=120)[0].strip().splitlines()[-1]) for load in loads]
    cluster.start(leader)
    cluster.wait_healthy([leader])
    least = min(report["least_remaining_ms"] for report in reports) / 1000
    note = f"{processes} processes; the nearest to its end had {least:.1f} s left"
    return Row(what, "", f"{sum(report['lost'] for report in reports)}", "", "0", note)


class Holder:
    """`tenure bench hold`: a process that says its token when it leads, and ends when it has lost."""

    def __init__(self, bench, cluster, name, ttl):
        words = ["--endpoints", cluster.endpoints, "bench", "hold", "--name", name, "--ttl", f"{ttl}s"]
        self.process = subprocess.Popen([bench.tenure, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def leads(self, within=60):
        """When it said so."""
        if not select.select([self.process.stdout], [], [], within)[0] or not self.process.stdout.readline():
            raise TimeoutError("nobody leads")
        return time.monotonic()

    def end(self):
        self.process.kill()
        self.process.wait()


def both_dead(bench):
    """The elected leader dies; when most of its time is over, the raft leader is killed, too."""
    count = max(bench.kills // 5, 2)
    took = {"tenure": [], "etcd": []}
    lost = 0
    for number in range(count):
        bench.say(f"elected leader and raft leader dead: {number + 1}/{count}")
        with bench.cluster("etcd", 3) as etcd:
            took["etcd"].append(key_outlives(bench, etcd))
        with bench.cluster("tenure", 3) as tenure:
            live = [Holder(bench, tenure, f"live-{n}", BOTH_DEAD_TTL) for n in range(LIVE_SESSIONS)]
            old = Holder(bench, tenure, "job", BOTH_DEAD_TTL)
            everybody = [*live, old]
            try:
                [one.leads() for one in everybody]
                new = Holder(bench, tenure, "job", BOTH_DEAD_TTL)
                everybody.append(new)
                in_line(bench, tenure, "job", 2)
                old.process.send_signal(signal.SIGSTOP)
                died = time.monotonic()
                kill_raft_leader_late(bench, tenure, died)
                took["tenure"].append(new.leads() - died)
                # Whoever lives must outlive what is left of its time, too.
                time.sleep(BOTH_DEAD_TTL)
                lost += sum(one.process.poll() is not None for one in live)
            finally:
                [one.end() for one in everybody]

    def shown(times):
        return f"p50 {median(times):.1f} s, max {max(times):.1f} s"

    what = f"raft leader killed while the elected leader is dead, TTL {BOTH_DEAD_TTL} s: until its session has ended"
    note = (
        f"{count} times, raft leader killed after 0.8 TTL; {lost} of {count * LIVE_SESSIONS} live sessions ended; "
        "etcd's lease was new when its holder died, tenure's up to a third of its TTL old"
    )
    ratio = f"1/{median(took['etcd']) / median(took['tenure']):.1f}"
    return Row(what, shown(took["etcd"]), shown(took["tenure"]), ratio, "TTL + raft failover, no live session ends", note)


def kill_raft_leader_late(bench, cluster, died):
    leader = None
    while leader is None:
        leader = bench.load.leader(cluster)
    time.sleep(max(0, died + 0.8 * BOTH_DEAD_TTL - time.monotonic()))
    cluster.kill(leader)
    return leader


def in_line(bench, cluster, name, count):
    """Waits until so many stand in line."""
    words = [bench.tenure, "--endpoints", cluster.endpoints, "-w", "json", "candidates", name]
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
        if len(done.stdout.splitlines()) >= count:
            return
    raise TimeoutError(f"nobody comes to stand in line for {name}")


def key_outlives(bench, cluster):
    """How long a key lives whose lease nobody renews any more: how etcd's elections end."""

    def ctl(*words, at=cluster.endpoints):
        words = [bench.etcdctl, "--endpoints", at, *words]
        return subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout

    died = time.monotonic()
    lease = ctl("lease", "grant", str(BOTH_DEAD_TTL)).split()[1]
    ctl("put", "job/leader", "x", f"--lease={lease}")
    leader = kill_raft_leader_late(bench, cluster, died)
    others = ",".join(member.endpoint for member in cluster.members if member is not leader)
    while ctl("get", "job/leader", "--consistency=s", "--keys-only", at=others).strip():
        time.sleep(0.02)
    return time.monotonic() - died


def relay_row(what, reports, asked):
    def quantile(kind, which):
        return median([r["latency_ms"][which] for r in reports[kind]])

    shown = {
        kind: f"p50 {quantile(kind, 'p50'):.2f} ms, p99 {quantile(kind, 'p99'):.2f} ms" for kind in reports
    }
    ratio = (
        f"p50 1/{quantile('etcd', 'p50') / quantile('tenure', 'p50'):.1f}, "
        f"p99 1/{quantile('etcd', 'p99') / quantile('tenure', 'p99'):.1f}"
    )
    return Row(what, shown["etcd"], shown["tenure"], ratio, asked)
