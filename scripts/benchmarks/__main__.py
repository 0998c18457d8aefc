"""Runs the parts and writes docs/records/benchmarks.md."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from . import elections, fence, parts, size
from .cluster import Cluster
from .load import Load
from .run import run

PARTS = {
    "three": ("Three nodes", lambda bench: parts.throughput(bench, 3) + parts.flushes(bench)),
    "one": ("One node", lambda bench: parts.throughput(bench, 1)),
    "gateway": ("JSON gateway", parts.gateway),
    "expiry": ("Leases", parts.expiry),
    "failover": ("Losing the raft leader", parts.failover),
    "handover": ("Handing over", parts.hand_over),
    "start": ("Starting", parts.start),
    "elections": ("Elections and locks", elections.elections),
    "run": ("Commands under a lease", run),
    "growth": ("Growing", size.growth),
    "backup": ("Backing up", size.backup),
    "joining": ("Joining", size.joining),
    "fence": ("Fencing proxy", fence.fence),
}


class Bench:
    def __init__(self, options):
        self.tenure = os.path.abspath("target/release/tenure")
        self.etcd = os.path.abspath(options.etcd)
        self.etcdctl = str(Path(self.etcd).with_name("etcdctl"))
        self.root = os.path.abspath(options.root)
        self.load = Load(self.tenure)
        quick = options.quick
        self.rounds = 1 if quick else 3
        self.seconds = 2 if quick else 5
        self.kills = 4 if quick else 20
        self.relays = 20 if quick else 200
        self.handovers = 1 if quick else 5
        self.starts = 2 if quick else 5
        self.windows = 1 if quick else 5
        self.many_keys = 100_000 if quick else 1_000_000
        self.many_leases = 10_000 if quick else 100_000
        self.many_sessions = 1_000 if quick else 10_000

    def binary(self, kind):
        return self.tenure if kind == "tenure" else self.etcd

    def cluster(self, kind, size, flags=(), begin=True):
        return Cluster(kind, self.binary(kind), size, self.root, flags, begin)

    def say(self, what):
        print(f"bench: {what}", file=sys.stderr, flush=True)


def machine():
    model = next(
        (l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown"
    )
    memory = int(next(l for l in open("/proc/meminfo") if l.startswith("MemTotal")).split()[1])
    kernel = os.uname().release
    return f"{os.cpu_count()} cores ({model}), {memory / 2**20:.0f} GiB, Linux {kernel}"


def commit():
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()


def table(rows):
    head = ["", getattr(rows[0], "beside", "etcd 3.5.1"), "tenure", "ratio", "asked for", ""]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--etcd", required=True, help="path of the etcd binary")
    parser.add_argument("--quick", action="store_true", help="a few seconds each, for a first look")
    parser.add_argument("--only", help=f"parts to run and print, of {','.join(PARTS)}")
    parser.add_argument("--root", default="target/bench", help="where the data lies (default: %(default)s)")
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    bench = Bench(options)
    wanted = options.only.split(",") if options.only else list(PARTS)
    text = [
        "# tenure beside etcd 3.5.1",
        "",
        "Both on loopback on one machine, data on a real filesystem, fsync on, default flags on both sides,",
        "256-byte values, loaded in turn in the same run by the same client (`tenure bench`, which speaks",
        "the etcd v3 API to both, our own only where etcd can do nothing of the kind, and shares the cores with the servers). Medians of the rounds; a ratio above 1 means that",
        "tenure does more. The load and both clusters share two cores, so the CPU columns say more than the rates.",
        "",
        f"- repeat it: `make bench`{' (this was `scripts/bench --quick`)' if options.quick else ''}",
        f"- machine: {machine()}",
        f"- commit: {commit()}",
    ]
    for name in wanted:
        title, part = PARTS[name]
        section = f"\n## {title}\n\n{table(part(bench))}"
        print(section, flush=True)
        text.append(section)
        # A part by itself would take the place of all others.
        if not options.no_write and not options.only and options.root == parser.get_default("root"):
            Path("docs/records/benchmarks.md").write_text("\n".join(text) + "\n")


main()
