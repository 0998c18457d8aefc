// The lab in a real browser, with its own process behind it.

import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { accessible, launch, open } from "./browser.mjs";
import { BIN, until } from "./cluster.mjs";

let browser;
let lab;
let url;

before(async () => {
  browser = await launch();
  lab = spawn(BIN, ["lab", "ui", "--listen", "127.0.0.1:0", "--no-open"], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  lab.stdout.on("data", (text) => (said += text));
  url = await until("the lab says where it is", async () => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0]);
});

after(async () => {
  await browser?.close();
  lab?.kill("SIGTERM");
});

/** A page of the lab, in which every error counts. */
async function labPage(path, options = {}) {
  return open(browser, { members: [{ url }] }, `/ui/${path}`, { reducedMotion: "reduce", ...options });
}

const moment = (page) => page.locator("output.moment").innerText();
const promise = (page, text) => page.locator("section[aria-label=Promises] li", { hasText: text });

test("lab_gallery lists tours and stories, and finds them", async () => {
  const { page, close } = await labPage("#/lab");
  await page.getByRole("link", { name: "▶ Redlock", exact: true }).waitFor();
  await page.locator("input[data-search]").fill("sequential");
  await page.getByRole("link", { name: "zookeeper-crash", exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "bully-crash", exact: true }).count(), 0);
  await accessible(page, "the gallery");
  await close();
});

test("lab_redlock plays to its breach, steps back, and a fork without the pause keeps every promise", async () => {
  const { page, close } = await labPage("#/lab/redlock-pause");
  await page.getByRole("button", { name: "Next fault or breach" }).click();
  assert.equal(await moment(page), "5.000 000 s");
  await page.keyboard.press("]");
  assert.equal(await moment(page), "25.000 000 s");
  await promise(page, "At most one believes to lead").getByText("a and c believe to lead").waitFor();
  assert.equal(await page.locator("svg.stage .crown").count(), 2);
  await page.keyboard.press("ArrowLeft");
  assert.match(await promise(page, "At most one believes").getAttribute("class"), /kept/);
  await page.keyboard.press("ArrowRight");
  assert.match(await promise(page, "At most one believes").getAttribute("class"), /broken/);
  await accessible(page, "the breach");

  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Fault script" }).fill("");
  await page.getByRole("button", { name: "Run it" }).click();
  await page.locator("section[aria-label=Forks]").getByText("all kept").waitFor();
  await page.keyboard.press("End");
  await page.getByRole("slider").press("End");
  for (const row of await page.locator("section[aria-label=Promises] li").all()) assert.match(await row.getAttribute("class"), /kept/);
  await page.locator("section[aria-label=Forks]").getByRole("button", { name: /this story/ }).click();
  await promise(page, "At most one believes").getByText("a and c believe").waitFor();
  await close();
});

test("lab_link that is cut by a click makes the bully split", async () => {
  const { page, close } = await labPage("#/lab/bully-crash?at=1000000&faults=");
  // The faults of the address: none. Then the two highest are cut from each other.
  const process = (name) => page.locator(`svg.stage g.process[data-process="${name}"]`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Fault script" }).fill("");
  await page.getByRole("button", { name: "Run it" }).click();
  await page.locator("section[aria-label=Forks]").waitFor();
  await process("d").click();
  await process("e").click({ modifiers: ["Shift"] });
  await page.getByRole("button", { name: "Cut d and e" }).click();
  await page.locator("section[aria-label=Faults] .script").getByText("cut d e for 5s").waitFor();
  await page.keyboard.press(" ");
  await page.getByRole("slider").press("End");
  await promise(page, "At most one believes to lead").getByText(/believe to lead/).waitFor();
  await close();
});

test("lab_address shows the same picture when it is opened again", async () => {
  const first = await labPage("#/lab/tenure-pause?seed=3&at=16200064");
  await first.page.locator("svg.stage").waitFor();
  await first.page.keyboard.press("ArrowRight");
  await first.page.waitForURL((at) => /at=16\d+/.test(at.hash) && !at.hash.includes("at=16200064"));
  const shot = async (page) => ({ at: await moment(page), stage: await page.locator("svg.stage").innerHTML() });
  const at = Number(new URL(first.page.url()).hash.split("at=")[1].split("&")[0]);
  const again = await labPage(`#/lab/tenure-pause?seed=3&at=${at}`);
  await again.page.locator("svg.stage").waitFor();
  const third = await labPage(`#/lab/tenure-pause?seed=3&at=${at}`);
  await third.page.locator("svg.stage").waitFor();
  assert.deepEqual(await shot(again.page), await shot(third.page));
  assert.equal((await shot(again.page)).at, await moment(first.page));
  for (const { close } of [first, again, third]) await close();
});

test("lab_tours play to their ends", async () => {
  const { page, close } = await labPage("#/lab");
  await page.getByRole("link", { name: "▶ Redlock", exact: true }).waitFor();
  const tours = await page.locator("section[aria-label=Tours] a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
  assert.ok(tours.length >= 12, `${tours.length} tours`);
  for (const tour of tours) {
    await page.goto(`${url}/ui/${tour}`);
    await page.getByText(/Tour, 1 of \d+/).waitFor();
    const stops = Number(/of (\d+)/.exec(await page.getByText(/Tour, 1 of/).innerText())[1]);
    for (let stop = 2; stop <= stops; stop += 1) {
      await page.locator(".tour").getByRole("button", { name: "Next" }).click();
      await page.getByText(`Tour, ${stop} of ${stops}`).waitFor();
      assert.notEqual(await page.locator(".says").innerText(), "");
    }
  }
  await close();
});

test("lab_tour goes on by itself", async () => {
  const { page, close } = await labPage("#/lab/lease-gc-pause?tour=1", { reducedMotion: "no-preference" });
  await page.getByText("Tour, 1 of 6").waitFor();
  await page.locator(".transport select").selectOption("4");
  await page.getByText("Tour, 2 of 6").waitFor();
  await close();
});

test("lab_bad_input is told where it is wrong and breaks nothing", async () => {
  const { page, expect, close } = await labPage("#/lab/redlock-pause");
  expect(/400|404/);
  await page.getByRole("button", { name: "Edit" }).click();
  const script = page.getByRole("textbox", { name: "Fault script" });
  await script.fill("at 5s pause leader for 20s\nat 6s explode a\n");
  await page.getByRole("button", { name: "Run it" }).click();
  await page.getByText("Line 2, column 7: there is no such fault: explode a").waitFor();
  assert.equal(await script.evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd)), "explode");
  await script.fill("at 5s crash z\n");
  await page.getByRole("button", { name: "Run it" }).click();
  await page.getByText(/there is no process z; the processes are a, b, c/).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Step ▶" }).click();
  await page.goto(`${url}/ui/#/lab/no-such-story`);
  await page.getByText("no story is called").waitFor();
  await page.goto(`${url}/ui/#/lab/redlock-pause?seed=banana&at=-7e99&faults=at%20x`);
  await page.getByText("Line 1, column 1").waitFor();
  await close();
});

test("lab_comparison has both runs on one clock", async () => {
  const { page, close } = await labPage("#/lab/compare?a=lease-gc-pause&b=lease-fenced-gc-pause");
  await page.locator("svg.stage").nth(1).waitFor();
  await page.getByRole("slider").first().press("End");
  const broken = await page.locator("section[aria-label=Promises] header .small").allInnerTexts();
  assert.deepEqual(broken, ["2 of 5 broken", "1 of 5 broken"]);
  assert.match(await page.locator("table").innerText(), /writes of replaced leaders taken\s+1\s+0/);
  await accessible(page, "the comparison");
  await close();
});

test("lab_measured has rows as they come", async () => {
  const { page, close } = await labPage("#/lab/measured");
  await page.getByRole("row", { name: /^singleton/ }).waitFor({ timeout: 60_000 });
  await page.getByText(/\d+ of \d+ algorithms are measured/).waitFor();
  await close();
});

test("lab_export is one file that plays without a server", async () => {
  const home = mkdtempSync(join(tmpdir(), "tenure-lab-"));
  const file = join(home, "pause.html");
  execFileSync(BIN, ["lab", "export", "redlock-pause", "tenure-pause", "-o", file]);
  const page = await browser.newPage({ reducedMotion: "reduce" });
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("request", (request) => request.url().startsWith("file:") || request.url().startsWith("blob:") || wrong.push(request.url()));
  await page.goto(`file://${file}`);
  await page.getByRole("button", { name: "Next fault or breach" }).click();
  assert.equal(await moment(page), "5.000 000 s");
  await page.getByRole("button", { name: "Tour" }).click();
  await page.getByText("Tour, 1 of 6").waitFor();
  await page.getByRole("combobox", { name: "Another story" }).selectOption({ label: "tenure-pause" });
  await page.locator("h1", { hasText: "tenure-pause" }).waitFor();
  assert.deepEqual(wrong, []);
  await page.close();
  rmSync(home, { recursive: true });
});
