// The dashboard in a real browser, in front of real members. Any error on the console, violation of the policy or request
// to another host fails the test.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, launch, open } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";

let browser;
let cluster;

before(async () => {
  [browser, cluster] = await Promise.all([launch(), Cluster.start(3)]);
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const row = (page, name) => page.locator("tbody tr", { has: page.locator(`a[href="#/election/${name}"]`) });

test("dashboard_list shows the first steps, then elections as they come", async () => {
  const { page, close } = await open(browser, cluster, "/");
  assert.equal(new URL(page.url()).pathname, "/ui/", "a browser that asks for / is led to the pages");
  await page.getByText("No elections yet").waitFor();
  const commands = await page.locator(".command code").allTextContents();
  assert.equal(commands.length, 2);
  assert.match(commands[0], /^tenure elect nightly-job .*--endpoints 127\.0\.0\.1:\d+$/);
  await accessible(page, "the empty list");

  const alice = cluster.candidate("list/one", "alice");
  await row(page, "list/one").getByText("alice").waitFor();
  assert.match(await row(page, "list/one").innerText(), /steady/);
  const bob = cluster.candidate("list/two", "bob");
  await row(page, "list/two").getByText("bob").waitFor();
  await cluster.kill(bob);
  await row(page, "list/two").getByText("vacant", { exact: true }).waitFor();
  await page.getByText("1 name has nobody in charge").waitFor();
  await accessible(page, "the list");

  await page.keyboard.press("/");
  await page.keyboard.type("list/t");
  await row(page, "list/one").waitFor({ state: "detached" });
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "list/two" }).waitFor();
  await cluster.kill(alice);
  await close();
});

test("dashboard_timeline shows the gap, the reason and the next token after a leader was killed", async () => {
  const name = "timeline/job";
  const alice = cluster.candidate(name, "alice");
  const first = await cluster.leads(name, "alice");
  const { page, close } = await open(browser, cluster, `/ui/#/election/${name}`);
  await page.locator(".facts", { hasText: "alice" }).waitFor();
  assert.equal(await page.locator("svg .vacant").count(), 0);
  await cluster.kill(alice);
  await page.locator(".facts").getByText("nobody").waitFor();
  await page.locator("svg .vacant").waitFor({ state: "attached" });
  const bob = cluster.candidate(name, "bob");
  const second = await cluster.leads(name, "bob");
  assert.ok(Number(second.token) > Number(first.token));
  await page.locator(".facts", { hasText: "bob" }).waitFor();

  const rows = page.locator("table.tenures tbody tr");
  await until("the table has both tenures", async () => (await rows.count()) === 2);
  const [newest, oldest] = await rows.allInnerTexts();
  assert.ok(newest.includes(second.token) && newest.includes("leads now"), newest);
  assert.ok(oldest.includes(first.token) && oldest.includes("expired: no renewal in time"), oldest);
  const gap = page.locator("svg rect.vacant");
  assert.equal(await gap.count(), 1);
  assert.ok(Number(await gap.getAttribute("width")) >= 4);
  await page.locator("svg text.gap.alarm-text", { hasText: /s$/ }).waitFor();

  // The card beside the bar of the first tenure.
  const bar = page.locator(`svg [role="button"][tabindex="0"][aria-label^="Token ${first.token},"]`);
  await bar.focus();
  const card = page.locator(".card");
  await card.waitFor();
  const text = await card.innerText();
  assert.ok(text.includes("expired") && text.includes(`${second.token}, bob`), text);
  const [barBox, cardBox] = [await bar.boundingBox(), await card.boundingBox()];
  assert.ok(cardBox.y >= barBox.y + barBox.height || cardBox.y + cardBox.height <= barBox.y, "the card is not over the bar");
  await page.keyboard.press("ArrowLeft");
  await page.getByText("Follow now").waitFor();
  await page.keyboard.press("n");
  await page.getByText("Following now").waitFor();
  await accessible(page, "an election");
  await cluster.kill(bob);
  await close();
});

test("dashboard_actions transfer, evict, freeze and resume by their buttons", async () => {
  const name = "actions/job";
  const processes = [];
  const join = async (identity) => {
    processes.push(cluster.candidate(name, identity));
    await cluster.waits(name, identity);
  };
  processes.push(cluster.candidate(name, "alice"));
  await cluster.leads(name, "alice");
  await join("bob");
  const { page, close } = await open(browser, cluster, `/ui/#/election/${name}`);
  const panel = page.locator("section.action");

  await page.getByRole("button", { name: "Transfer…", exact: true }).click();
  await panel.getByText("Transfer to bob?").waitFor();
  assert.match(await panel.locator("code").innerText(), /^tenure transfer actions\/job --to bob --endpoints /);
  await panel.getByRole("button", { name: "Transfer", exact: true }).click();
  await cluster.leads(name, "bob");
  await panel.getByText(/bob leads with token \d+/).waitFor();
  await accessible(page, "an action");
  await panel.getByRole("button", { name: "Close" }).click();

  await join("carol");
  const token = (await cluster.leader(name)).token;
  await page.locator(".facts", { hasText: "bob" }).waitFor();
  await page.getByRole("button", { name: "Evict…", exact: true }).click();
  assert.ok((await panel.locator("code").innerText()).includes(`--token ${token}`));
  await panel.getByRole("button", { name: "Evict", exact: true }).click();
  await panel.getByText(`Evicted bob with token ${token}.`).waitFor();
  assert.ok(Number((await cluster.leads(name, "carol")).token) > Number(token));
  await join("dave");
  await panel.getByRole("button", { name: "Close" }).click();

  await page.getByRole("button", { name: "Freeze…" }).click();
  await panel.getByRole("button", { name: "Freeze", exact: true }).click();
  await until("nobody leads", async () => !(await cluster.leader(name)));
  await page.locator(".facts").getByText("nobody, by order").waitFor();
  await page.locator("svg rect.frozen").waitFor({ state: "attached" });
  await panel.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Resume…" }).click();
  await panel.getByRole("button", { name: "Resume", exact: true }).click();
  await cluster.leads(name, "dave");
  await page.locator("table.tenures").getByText("frozen by an operator").waitFor();
  await Promise.all(processes.map((process) => cluster.kill(process)));
  await close();
});

test("dashboard_pages show sessions, keys, events, members and the doctor's findings", async () => {
  const leader = cluster.candidate("pages/job", "carol");
  await cluster.leads("pages/job", "carol");
  await cluster.ask("kv/put", { key: btoa("app/config"), value: btoa('{"limit":1}') });
  await cluster.ask("kv/put", { key: btoa("app/config"), value: btoa('{"limit":2}') });
  const { page, clean, close } = await open(browser, cluster, "/ui/#/sessions");
  await page.locator("tr", { hasText: "carol" }).getByText("leads, token").waitFor();
  await accessible(page, "sessions");

  await page.goto(`${cluster.members[0].url}/ui/#/keys`);
  await page.getByRole("button", { name: /^app\// }).click();
  await page.getByRole("button", { name: "config" }).click();
  await page.getByLabel("History").getByText("version 2").waitFor();
  assert.match(await page.locator("pre.diff").innerText(), /− {3}"limit": 1\n\+ {3}"limit": 2/);
  await page.getByRole("button", { name: "Change…" }).click();
  await page.locator("textarea").fill("written by hand");
  // Another writer is faster: the condition on the revision holds this one back.
  await cluster.ask("kv/put", { key: btoa("app/config"), value: btoa("faster") });
  await page.getByRole("button", { name: "Put", exact: true }).click();
  const outcome = page.getByText(/nothing was written|Written at revision/);
  await outcome.waitFor();
  const kept = await cluster.ask("kv/range", { key: btoa("app/config") });
  const refused = (await outcome.innerText()).includes("nothing");
  assert.equal(atob(kept.kvs[0].value), refused ? "faster" : "written by hand");
  await accessible(page, "keys");

  await page.goto(`${cluster.members[0].url}/ui/#/events`);
  await page.locator("li", { hasText: "pages/job" }).getByText("leads with token").waitFor();
  await accessible(page, "events");
  await page.goto(`${cluster.members[0].url}/ui/#/cluster`);
  await page.getByText("3 of 3 answer; one more may fail").waitFor();
  assert.equal(await page.locator("section.card").count(), 3);
  await accessible(page, "the cluster");
  await page.goto(`${cluster.members[0].url}/ui/#/doctor`);
  await page.getByText(/Compared 3 members/).waitFor();
  await accessible(page, "the doctor");
  clean();
  await cluster.kill(leader);
  await close();
});

test("dashboard_read_only shows commands and changes nothing", async () => {
  const small = await Cluster.start(1, ["--ui", "read-only"]);
  const alice = small.candidate("job", "alice");
  await small.leads("job", "alice");
  const { page, expect, close } = await open(browser, small, "/ui/#/election/job");
  await page.getByText("read-only").first().waitFor();
  await page.getByRole("button", { name: "Evict…" }).click();
  const panel = page.locator("section.action");
  assert.match(await panel.locator("code").innerText(), /^tenure evict job --token \d+ /);
  await panel.getByText("This page is read-only").waitFor();
  assert.equal(await panel.getByRole("button", { name: "Evict", exact: true }).count(), 0);
  // The server sees to it, too; programs are served as ever.
  expect(/403 \(Forbidden\)/);
  const status = await page.evaluate(async () => (await fetch("/v3/tenure/elections/freeze", { method: "POST", body: '{"name":"job"}' })).status);
  assert.equal(status, 403);
  assert.equal((await small.leader("job")).identity, "alice");
  assert.ok(!("error" in (await small.ask("tenure/elections/freeze", { name: "job" }))));
  await close();
  await small.kill(alice);
  await small.stop();
});

test("dashboard_goes_on from another member when its own dies, and says when no majority is left", async () => {
  const name = "moving/job";
  const alice = cluster.candidate(name, "alice");
  await cluster.leads(name, "alice");
  const { page, expect, close } = await open(browser, cluster, `/ui/#/election/${name}`);
  await page.locator(".facts", { hasText: "alice" }).waitFor();
  await page.getByText("m1 of 3").waitFor();
  const [first, ...others] = cluster.members;
  expect(new RegExp(`net::ERR_.*${first.url}`));
  // The others are asked whether they answer; what they answer to a page of another origin is no.
  expect(/403 \(Forbidden\) .*\/ui\/facts\.json$/);
  await cluster.kill(first.process);
  await page.getByText(/m1 does not answer: continuing from m[23]\./).waitFor({ timeout: 15_000 });
  assert.ok(others.some((one) => page.url().startsWith(`${one.url}/ui/`)), page.url());
  assert.ok(page.url().endsWith(`#/election/${name}`), page.url());
  await page.locator(".facts", { hasText: "alice" }).waitFor();

  const here = others.find((one) => page.url().startsWith(one.url));
  const there = others.find((one) => one !== here);
  expect(/50[34] \(/);
  expect(new RegExp(`net::ERR_.*${here.url}`));
  await cluster.kill(there.process);
  await page.getByText("No quorum: nothing can be decided.").waitFor({ timeout: 15_000 });
  assert.ok(await page.locator("main.stale").count(), "what is shown is dimmed");
  await accessible(page, "without a quorum");
  await cluster.kill(alice);
  await close();
});
