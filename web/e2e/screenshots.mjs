// Pictures of the dashboard for the docs: real members, real candidates, and a story that takes about two minutes.
//
// node web/e2e/screenshots.mjs OUT_DIR

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { BIN, Cluster, until } from "./cluster.mjs";

const out = process.argv[2] ?? "docs/images";
mkdirSync(out, { recursive: true });
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

// The pages use the system's faces. Here these are Inter and JetBrains Mono, if there are such.
const fonts = join(mkdtempSync(join(tmpdir(), "tenure-fonts-")), "fonts.conf");
writeFileSync(fonts, `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  ${[["system-ui", "Inter"], ["sans", "Inter"], ["sans-serif", "Inter"], ["ui-monospace", "JetBrains Mono"], ["monospace", "JetBrains Mono"], ["DejaVu Sans Mono", "JetBrains Mono"]].map(([from, to]) => `<match target="pattern"><test name="family"><string>${from}</string></test><edit name="family" mode="prepend" binding="strong"><string>${to}</string></edit></match>`).join("\n  ")}
</fontconfig>`);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"], env: { ...process.env, FONTCONFIG_FILE: fonts },
});
const cluster = await Cluster.start(3);
const NAME = "billing/invoice-run";
const running = new Map();
const join_ = (name, identity, ...flags) => {
  const process = cluster.candidate(name, identity, "--ttl", "6s", ...flags);
  running.set(`${name} ${identity}`, process);
};
const kill = (name, identity) => cluster.kill(running.get(`${name} ${identity}`));
const act = (what, body) => cluster.ask(`tenure/elections/${what}`, { name: NAME, ...body });

try {
  for (const [name, ...identities] of [
    ["billing/ledger-close", "worker-2.eu-1a", "worker-9.eu-1a"],
    ["cron/nightly-backup", "cron-2.eu-1a"],
    ["cron/report-mailer", "cron-1.eu-1a", "cron-3.eu-1b"],
    ["db/schema-migrate", "migrate-1"],
    ["ingest/kafka-offsets/0", "ingest-4.eu-1b", "ingest-1.eu-1a"],
    ["ingest/kafka-offsets/1", "ingest-1.eu-1a", "ingest-2.eu-1c"],
    ["ingest/kafka-offsets/2", "ingest-2.eu-1c", "ingest-4.eu-1b"],
    ["search/shard-allocator", "idx-1.eu-1a", "idx-2.eu-1b", "idx-3.eu-1b"],
  ]) {
    for (const identity of identities) {
      join_(name, identity);
      await pause(0.2);
    }
  }
  const contexts = [];
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, colorScheme, deviceScaleFactor: 1 });
    await page.goto(`${cluster.members[0].url}/ui/#/election/${NAME}`);
    contexts.push([colorScheme, page]);
  }

  join_(NAME, "worker-5.eu-1b");
  await cluster.leads(NAME, "worker-5.eu-1b");
  await kill("cron/nightly-backup", "cron-2.eu-1a");
  await cluster.ask("tenure/elections/freeze", { name: "db/schema-migrate" });
  await pause(14);
  await kill(NAME, "worker-5.eu-1b");
  await until("the leader is gone", async () => !(await cluster.leader(NAME)));
  await pause(7);
  for (const identity of ["worker-2.eu-1a", "worker-1.eu-1a", "worker-7.eu-1c", "batch-3.eu-1b"]) {
    join_(NAME, identity);
    await pause(0.4);
  }
  await pause(15);
  // A leader that was relieved comes back and waits again.
  const leader = async () => (await cluster.leader(NAME)).identity;
  let relieved = await leader();
  const next = await cluster.waits(NAME, "worker-1.eu-1a");
  await act("transfer", { session: next.session });
  await pause(2);
  join_(NAME, relieved);
  await pause(12);
  relieved = await leader();
  await act("freeze");
  await pause(6);
  await act("resume");
  join_(NAME, relieved);
  join_(NAME, "worker-5.eu-1b", "--priority", "1");
  await pause(12);
  const third = await cluster.leader(NAME);
  await kill(NAME, third.identity);
  await until("the next leads", async () => Number((await cluster.leader(NAME))?.token) > Number(third.token));
  join_(NAME, third.identity);
  await pause(10);
  relieved = await leader();
  await act("evict", { token: (await cluster.leader(NAME)).token });
  await pause(1);
  join_(NAME, relieved);
  await pause(14);

  for (const [scheme, page] of contexts) {
    const second = page.locator("section", { hasText: "in the order they would lead" }).locator("li").nth(1);
    const expired = page.locator('svg [role="button"][tabindex="0"][aria-label*="expired"]').last();
    await page.getByRole("button", { name: "5 min" }).click();
    await page.getByRole("button", { name: "all", exact: true }).click();
    await second.hover();
    await second.getByRole("button", { name: /Transfer/ }).click();
    await expired.focus();
    await pause(0.5);
    if (scheme === "light" || process.env.ALL) {
      await page.screenshot({ path: join(out, scheme === "light" ? "dashboard.png" : "dashboard-dark.png") });
    }
    if (process.env.ALL) {
      for (const name of ["elections", "cluster", "sessions", "keys", "events", "doctor"]) {
        await page.goto(`${cluster.members[0].url}/ui/#/${name}`);
        await pause(1.5);
        await page.screenshot({ path: join(out, `${name}-${scheme}.png`) });
      }
    }
  }
} finally {
  await browser.close();
  await cluster.stop();
}

// The lab at the breach of Redlock: the write of the old owner is taken.
const lab = spawn(BIN, ["lab", "ui", "--listen", "127.0.0.1:0", "--no-open"], { stdio: ["ignore", "pipe", "inherit"] });
let said = "";
lab.stdout.on("data", (text) => (said += text));
const drawer = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"], env: { ...process.env, FONTCONFIG_FILE: fonts },
});
try {
  const url = await until("the lab says where it is", async () => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0]);
  const page = await drawer.newPage({ viewport: { width: 1440, height: 960 }, reducedMotion: "reduce" });
  await page.goto(`${url}/ui/#/lab/redlock-pause`);
  await page.locator("output.moment").waitFor();
  for (let jump = 0; jump < 3; jump += 1) await page.keyboard.press("]");
  await page.keyboard.press("ArrowRight");
  await page.screenshot({ path: join(out, "lab.png") });
} finally {
  await drawer.close();
  lab.kill("SIGTERM");
}
