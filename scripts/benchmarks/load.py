"""One client code path for both: `tenure bench` over standard etcd RPCs."""

import json
import subprocess


class Load:
    def __init__(self, tenure):
        self.tenure = tenure

    def command(self, cluster, words, first=0):
        """`first` is the member that the first client asks. One client alone is quicker at the raft leader, wherever
        that is, so rounds begin at each member in turn."""
        members = [*cluster.members[first:], *cluster.members[:first]]
        endpoints = ",".join(member.endpoint for member in members)
        return [self.tenure, "--endpoints", endpoints, "-w", "json", "bench", *words]

    def run(self, cluster, words, first=0):
        """The report, with what the servers spent meanwhile."""
        before = cluster.cpu_seconds()
        command = self.command(cluster, words, first % len(cluster.members))
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if not done.stdout.strip():
            raise RuntimeError(f"{' '.join(words)} on {cluster.kind}: {done.stderr.strip()}")
        report = json.loads(done.stdout.strip().splitlines()[-1])
        report["server_cpu_seconds"] = cluster.cpu_seconds() - before
        return report

    def status(self, cluster):
        """What each member says of itself, in the order of the members."""
        done = subprocess.run(
            [self.tenure, "--endpoints", cluster.endpoints, "-w", "json", "status"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        return json.loads(done.stdout)

    def leader(self, cluster):
        """The member that leads the log."""
        for member, entry in zip(cluster.members, self.status(cluster)):
            status = entry.get("Status", entry)
            if status["leader"] == status["header"]["member_id"]:
                return member
        return None

    def background(self, cluster, words):
        return subprocess.Popen(
            self.command(cluster, words),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
