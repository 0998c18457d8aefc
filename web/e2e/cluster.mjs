// Real members and candidates, as processes.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const BIN = process.env.TENURE_BIN ?? new URL("../../target/debug/tenure", import.meta.url).pathname;
const PATIENCE_MS = 20_000;

/** Asks until it is so. */
export async function until(what, ask, patience = PATIENCE_MS) {
  const began = Date.now();
  let last;
  for (;;) {
    try {
      last = await ask();
      if (last) return last;
    } catch (cause) {
      last = cause;
    }
    if (Date.now() - began > patience) throw new Error(`${what}: not within ${patience} ms; last: ${last}`);
    await new Promise((next) => setTimeout(next, 50));
  }
}

async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, () => new Promise((done) => {
      const server = createServer().listen(0, "127.0.0.1", () => done(server));
    })),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
}

export class Cluster {
  #home = mkdtempSync(join(tmpdir(), "tenure-web-"));
  #processes = new Set();
  members = [];

  static async start(count, flags = []) {
    const cluster = new Cluster();
    const ports = await freePorts(2 * count);
    const list = Array.from({ length: count }, (_, at) => `m${at + 1}=http://127.0.0.1:${ports[2 * at + 1]}`).join(",");
    for (let at = 0; at < count; at += 1) {
      const url = `http://127.0.0.1:${ports[2 * at]}`;
      const peer = `http://127.0.0.1:${ports[2 * at + 1]}`;
      const name = `m${at + 1}`;
      const process = cluster.#spawn([
        "serve", "--name", name, "--data-dir", join(cluster.#home, name), "--listen-client-urls", url, "--advertise-client-urls", url,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", list, "--log-level", "warn", ...flags,
      ]);
      cluster.members.push({ name, url, process });
    }
    await Promise.all(cluster.members.map((one) => until(`${one.name} is ready`, async () => (await fetch(`${one.url}/readyz`)).ok)));
    return cluster;
  }

  get endpoints() {
    return this.members.map((one) => one.url).join(",");
  }

  #spawn(args) {
    const child = spawn(BIN, args, { stdio: "ignore" });
    this.#processes.add(child);
    child.ended = new Promise((done) => child.on("exit", done));
    void child.ended.then(() => this.#processes.delete(child));
    return child;
  }

  /** A candidate that leads or waits until it is killed. */
  candidate(name, identity, ...flags) {
    const ttl = flags.includes("--ttl") ? [] : ["--ttl", "1s"];
    return this.#spawn(["elect", name, "--identity", identity, ...ttl, "--endpoints", this.endpoints, ...flags]);
  }

  async kill(process) {
    if (process.exitCode === null && process.signalCode === null) process.kill("SIGKILL");
    await process.ended;
  }

  /** Our own API, as curl would ask. */
  async ask(path, body = {}, member = this.members.find((one) => one.process.exitCode === null && one.process.signalCode === null)) {
    const response = await fetch(`${member.url}/v3/${path}`, { method: "POST", body: JSON.stringify(body) });
    return response.json();
  }

  async leader(name) {
    const { candidates = [] } = await this.ask("tenure/elections/candidates", { name });
    return candidates.find((one) => one.holds);
  }

  leads(name, identity) {
    return until(`${identity} leads ${name}`, async () => {
      const leader = await this.leader(name);
      return leader?.identity === identity && leader;
    });
  }

  waits(name, identity) {
    return until(`${identity} waits for ${name}`, async () => {
      const { candidates = [] } = await this.ask("tenure/elections/candidates", { name });
      return candidates.find((one) => one.identity === identity && !one.holds);
    });
  }

  async stop() {
    const all = [...this.#processes];
    for (const process of all) process.kill("SIGKILL");
    await Promise.all(all.map((process) => process.ended));
    rmSync(this.#home, { recursive: true, force: true });
  }
}
