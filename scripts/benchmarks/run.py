"""`tenure run`: how long it takes until the next leader's command says its first line.

Two supervisors stand for one election. Something happens to the first; the clock stops at the first line of
the second one's command. `etcdctl lock NAME cmd` does the same for what it can.
"""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from .cluster import TICKS_PER_SECOND
from .parts import Row, median, resident_mb

# Says a line, then waits; ends at the first signal.
COMMAND = ["sh", "-c", "echo began; exec sleep 1000"]
PATIENCE = 30


class Supervisor:
    def __init__(self, words):
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def first_line(self):
        """When the command said something."""
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        if not ready or b"began" not in os.read(self.process.stdout.fileno(), 100):
            raise TimeoutError("the command did not begin")
        return time.monotonic()

    def bottom(self):
        """The lowest process: the command."""
        pid = self.process.pid
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(children[0])
        return pid

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def words(bench, kind, cluster, ttl="60s"):
    if kind == "tenure":
        return [
            bench.tenure, "--endpoints", cluster.endpoints,
            "run", "-q", "--election", "job", "--ttl", ttl, "--", *COMMAND,
        ]
    return [bench.etcdctl, "--endpoints", cluster.endpoints, "lock", "--ttl", "60", "--", "job", *COMMAND]


def waiting(bench, cluster):
    said = subprocess.run(
        [bench.tenure, "--endpoints", cluster.endpoints, "get", "job/", "--prefix", "--count-only", "-w", "json"],
        capture_output=True, text=True, check=True,
    ).stdout
    return json.loads(said).get("count", 0)


def takeover(bench, kind, cluster, happens):
    """Milliseconds from what happens to the first one until the second one's command speaks."""
    first = Supervisor(words(bench, kind, cluster))
    first.first_line()
    second = Supervisor(words(bench, kind, cluster))
    give_up = time.monotonic() + PATIENCE
    while waiting(bench, cluster) < 2 and time.monotonic() < give_up:
        time.sleep(0.01)
    begun = time.monotonic()
    happens(first)
    took = (second.first_line() - begun) * 1000
    second.end()
    first.end()
    return took


def resigned(bench, cluster):
    """Milliseconds from the death of the command until the server tells that the tenure has ended."""
    watch = subprocess.Popen(
        [bench.tenure, "--endpoints", cluster.endpoints, "observe", "job", "-w", "json"],
        stdout=subprocess.PIPE, text=True,
    )
    first = Supervisor(words(bench, "tenure", cluster))
    first.first_line()
    while '"leads"' not in watch.stdout.readline():
        pass
    begun = time.monotonic()
    os.kill(first.bottom(), signal.SIGKILL)
    while '"ended"' not in watch.stdout.readline():
        pass
    took = (time.monotonic() - begun) * 1000
    watch.kill()
    watch.wait()
    first.end()
    return took


def shown(times):
    return f"p50 {median(times):.1f} ms, max {max(times):.1f} ms"


def interrupt(supervisor):
    """As a terminal does: everybody in the process group."""
    os.killpg(supervisor.process.pid, signal.SIGINT)


def kill(supervisor):
    supervisor.process.kill()


def run(bench):
    rows = []
    count = bench.kills
    with bench.cluster("tenure", 3) as tenure, bench.cluster("etcd", 3) as etcd:
        bench.say("run: Ctrl-C")
        times = {"tenure": [], "etcd": []}
        for _ in range(count):
            for kind, cluster in (("tenure", tenure), ("etcd", etcd)):
                times[kind].append(takeover(bench, kind, cluster, interrupt))
        ratio = f"1/{median(times['etcd']) / median(times['tenure']):.1f}"
        what = "Ctrl-C of the leader until the next one's command speaks"
        rows.append(Row(what, shown(times["etcd"]), shown(times["tenure"]), ratio, "median ≤ 60 ms", f"{count} times; etcd: `etcdctl lock`"))
        bench.say("run: kill -9")
        times = [takeover(bench, "tenure", tenure, kill) for _ in range(count)]
        what = "kill -9 of the supervisor until the next one's command speaks, TTL 60 s"
        rows.append(Row(what, "after the TTL; its command runs on", shown(times), "", "≤ 200 ms", f"{count} times"))
        times = [resigned(bench, tenure) for _ in range(count)]
        what = "kill -9 of the command until observers are told that its tenure ended"
        rows.append(Row(what, "", shown(times), "", "≤ 20 ms", f"{count} times"))
        rows.append(standby(bench, tenure))
    return rows


def standby(bench, cluster):
    """What it costs to wait."""
    bench.say("run: standbys")
    leader = Supervisor(words(bench, "tenure", cluster, "10s"))
    leader.first_line()
    others = [Supervisor(words(bench, "tenure", cluster, "10s")) for _ in range(10)]
    time.sleep(5)

    def cpu():
        stats = [Path(f"/proc/{o.process.pid}/stat").read_text().rsplit(")", 1)[1].split() for o in others]
        return sum(int(s[11]) + int(s[12]) for s in stats) / TICKS_PER_SECOND

    seconds = 4 * bench.seconds
    before = cpu()
    time.sleep(seconds)
    share = (cpu() - before) / seconds / len(others)
    memory = [resident_mb(o.process.pid) for o in others]
    for one in [*others, leader]:
        one.end()
    return Row(
        "a standby, TTL 10 s", "", f"{max(memory):.1f} MB, {share:.2%} of a core", "",
        "≤ 12 MB, no measurable CPU", f"10 of them, {seconds} s",
    )
