// A browser in which every error counts.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/** A page, and what must not happen in it. Members that were killed may be asked in vain. */
export async function open(browser, cluster, path = "/ui/", options = {}) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, ...options });
  const wrong = [];
  const expected = [];
  const origins = new Set(cluster.members.map((one) => one.url));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  page.on("console", (message) => {
    const text = `${message.text()} ${message.location().url}`;
    if (["error", "warning"].includes(message.type()) && !expected.some((one) => one.test(text))) wrong.push(text);
  });
  page.on("pageerror", (error) => wrong.push(`uncaught: ${error.message}`));
  page.on("request", (request) => {
    if (!origins.has(new URL(request.url()).origin)) wrong.push(`external request: ${request.url()}`);
  });
  await page.goto(cluster.members[0].url + path);
  return {
    page,
    expect: (pattern) => expected.push(pattern),
    clean: () => assert.deepEqual(wrong, []),
    async close() {
      assert.deepEqual(wrong, []);
      await page.close();
    },
  };
}

/** axe finds nothing serious. */
export async function accessible(page, what) {
  await page.evaluate(AXE);
  const serious = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations
      .filter((one) => ["serious", "critical"].includes(one.impact))
      .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
  assert.deepEqual(serious, [], what);
}
