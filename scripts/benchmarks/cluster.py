"""Clusters of either kind on loopback, with real files and default flags."""

import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Member:
    def __init__(self, name, client_port, peer_port, folder):
        self.name = name
        self.client_port = client_port
        self.peer_url = f"http://127.0.0.1:{peer_port}"
        self.client_url = f"http://127.0.0.1:{client_port}"
        self.folder = folder
        self.process = None

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.client_port}"


class Cluster:
    """`kind` is tenure or etcd; both take the same flags."""

    made = itertools.count()

    def __init__(self, kind, binary, size, root, flags=(), begin=True):
        self.kind = kind
        self.flags = list(flags)
        self.begin = begin
        self.command = [binary, "serve"] if kind == "tenure" else [binary]
        self.root = Path(root) / f"{kind}-{size}-{next(Cluster.made)}"
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        ports = free_ports(2 * size)
        self.members = [
            Member(f"{kind}{i}", ports[2 * i], ports[2 * i + 1], self.root / str(i))
            for i in range(size)
        ]

    def __enter__(self):
        if self.begin:
            for member in self.members:
                self.start(member)
            self.wait_healthy()
        return self

    def __exit__(self, *_):
        for member in self.members:
            self.kill(member)
        shutil.rmtree(self.root, ignore_errors=True)

    def everybody(self):
        return ",".join(f"{m.name}={m.peer_url}" for m in self.members)

    def start(self, member, more=()):
        log = open(self.root / f"{member.name}.log", "ab")
        member.process = subprocess.Popen(
            self.command
            + ["--name", member.name, "--data-dir", str(member.folder)]
            + ["--listen-client-urls", member.client_url]
            + ["--advertise-client-urls", member.client_url]
            + ["--listen-peer-urls", member.peer_url]
            + ["--initial-advertise-peer-urls", member.peer_url]
            + ["--initial-cluster", self.everybody()]
            + self.flags
            + list(more),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )

    def kill(self, member, how=signal.SIGKILL):
        if member.process and member.process.poll() is None:
            member.process.send_signal(signal.SIGCONT)
            member.process.send_signal(how)
            member.process.wait()

    def is_healthy(self, member):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", member.client_port, timeout=1)
            connection.request("GET", "/health")
            return json.loads(connection.getresponse().read()).get("health") == "true"
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def wait_healthy(self, members=None, within=30):
        give_up = time.monotonic() + within
        for member in members or self.members:
            while not self.is_healthy(member):
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{member.name} is not healthy, see {self.root}")
                time.sleep(0.002)

    @property
    def endpoints(self):
        return ",".join(member.endpoint for member in self.members)

    def cpu_seconds(self):
        """User and system time of all servers together."""
        return sum(self.cpu_seconds_each())

    def cpu_seconds_each(self):
        """User and system time of each server."""

        def one(member):
            fields = Path(f"/proc/{member.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

        return [one(member) for member in self.members]

    def rss_mb(self):
        def one(member):
            status = Path(f"/proc/{member.process.pid}/status").read_text()
            line = next(l for l in status.splitlines() if l.startswith("VmRSS"))
            return int(line.split()[1]) / 1024

        return sum(one(member) for member in self.members) / len(self.members)
