"""The fencing proxy beside nginx: the same upstream, the same load, equal workers, in turn."""

import http.client
import os
import re
import shutil
import socket
import statistics
import subprocess
import time
from pathlib import Path

from .cluster import TICKS_PER_SECOND, free_ports
from .parts import Row, median

CONNECTIONS = 64
TOKENS = 200
BODY = "0123456789" * 10

HEAD = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
worker_processes {workers};
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
"""

UPSTREAM = HEAD + """
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{ default_type text/plain; return 200 "{body}"; }}
  }}
}}
"""

# What the fencing proxy does besides asking for tokens: keep-alive to the upstream, and its headers.
PROXY = HEAD + """
  upstream behind {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://behind;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header Via "1.1 nginx";
    }}
  }}
}}
"""


class BesideNginx(Row):
    beside = "nginx"


class Server:
    """A process, or nginx with its workers, on a port."""

    def __init__(self, command, port, log):
        self.port = port
        output = open(log, "ab")
        self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        give_up = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError(f"{command[0]} does not serve, see {log}") from None
                time.sleep(0.01)

    def cpu_seconds(self):
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        total = 0
        for pid in [self.process.pid, *children]:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS_PER_SECOND

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=10)


def nginx(folder, config, port, **words):
    folder.mkdir(parents=True)
    file = folder / "nginx.conf"
    file.write_text(config.format(folder=folder, port=port, body=BODY, **words))
    return Server(["nginx", "-p", str(folder), "-c", str(file)], port, folder / "log")


def tenure(bench, folder, port, upstream, workers):
    folder.mkdir(parents=True)
    command = [bench.tenure, "fence", "--no-cluster", "--threads", str(workers)]
    command += ["--upstream", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{port}"]
    return Server(command + ["--state", str(folder / "gate")], port, folder / "log")


def install():
    """nginx and wrk. Debian starts nginx's service when it can; ours is another process."""
    missing = [p for p, c in (("nginx-light", "nginx"), ("wrk", "wrk")) if not shutil.which(c)]
    if missing and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(
            ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing],
            env=environment,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    return all(shutil.which(command) for command in ("nginx", "wrk"))


def load(server, seconds, header="Accept: */*"):
    """Requests a second, and the proxy's CPU time for each in microseconds."""
    before = server.cpu_seconds()
    url = f"http://127.0.0.1:{server.port}/"
    said = subprocess.run(
        ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "--latency", "-H", header, url],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=True,
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"not all was answered:\n{said}")
    requests = int(re.search(r"(\d+) requests in", said)[1])
    return {
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]),
        "micros": 1e6 * (server.cpu_seconds() - before) / requests,
        "p99": milliseconds(*re.search(r"99%\s+([\d.]+)(us|ms|s|m)\b", said).groups()),
    }


def milliseconds(number, unit):
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def reads(bench, root, workers, what, header, asked):
    ports = free_ports(3)
    upstream = nginx(root / "upstream", UPSTREAM, ports[0], workers=workers)
    both = {}
    try:
        both["nginx"] = nginx(root / "nginx", PROXY, ports[1], upstream=ports[0], workers=workers)
        both["tenure"] = tenure(bench, root / "tenure", ports[2], ports[0], workers)
        runs = {"nginx": [], "tenure": []}
        for server in both.values():
            load(server, 1, header)
        for number in range(2 * bench.rounds):
            for kind in ("nginx", "tenure") if number % 2 == 0 else ("tenure", "nginx"):
                bench.say(f"{what} through {kind}, {workers} worker(s)")
                runs[kind].append(load(both[kind], bench.seconds, header))
    finally:
        for server in [*both.values(), upstream]:
            server.stop()
    rate = {kind: median([run["rate"] for run in of]) for kind, of in runs.items()}
    micros = {kind: median([run["micros"] for run in of]) for kind, of in runs.items()}
    p99 = {kind: median([run["p99"] for run in of]) for kind, of in runs.items()}
    return BesideNginx(
        f"{what}, {CONNECTIONS} connections, {workers} worker(s)",
        f"{rate['nginx']:,.0f}/s",
        f"{rate['tenure']:,.0f}/s",
        f"{rate['tenure'] / rate['nginx']:.2f} ×",
        asked,
        f"proxy's CPU µs/request {micros['nginx']:.1f} → {micros['tenure']:.1f}; "
        f"p99 ms {p99['nginx']:.1f} → {p99['tenure']:.1f}; "
        "load, proxy and upstream (nginx, as many workers) share the cores",
    )


def durable_write(bench, root):
    """Each second request shows a token that is newer than all before."""
    ports = free_ports(2)
    upstream = nginx(root / "behind", UPSTREAM, ports[0], workers=1)
    proxy = None
    took = {"newer": [], "same": []}
    try:
        proxy = tenure(bench, root / "durable", ports[1], ports[0], 1)
        connection = http.client.HTTPConnection("127.0.0.1", ports[1], timeout=10)
        for token in range(1, TOKENS + 1):
            for kind in ("newer", "same"):
                began = time.perf_counter()
                connection.request("PUT", "/", "x", {"Fencing-Token": str(token)})
                answer = connection.getresponse()
                answer.read()
                took[kind].append(1e3 * (time.perf_counter() - began))
                if answer.status != 200:
                    raise RuntimeError(f"token {token}: {answer.status}")
    finally:
        for server in filter(None, (proxy, upstream)):
            server.stop()
    newer, same = (statistics.median(took[kind]) for kind in ("newer", "same"))
    worst = statistics.quantiles(took["newer"], n=100)[98]
    return BesideNginx(
        "what the durable write costs: first request of a newer token",
        "",
        f"{newer:.2f} ms",
        "",
        "",
        f"p99 {worst:.2f} ms; a request with the same token {same:.2f} ms; one client, {TOKENS} tokens: "
        "a file written, flushed and renamed, and its directory flushed, once for each new holder",
    )


def fence(bench):
    if not install():
        return [BesideNginx("fencing proxy", "", "", "", "", "needs nginx-light and wrk")]
    root = Path(bench.root) / "fence"
    shutil.rmtree(root, ignore_errors=True)
    cores = os.cpu_count() or 1
    plain, token = ("GET passed through", "Accept: */*"), ("GET with a token", "Fencing-Token: 7")
    rows = [
        reads(bench, root / "all", cores, *plain, "0.85 ×"),
        reads(bench, root / "one", 1, *plain, ""),
        reads(bench, root / "token", cores, *token, ""),
        durable_write(bench, root),
    ]
    shutil.rmtree(root, ignore_errors=True)
    return rows
