// Takes the pictures of the demo's report for the README and the site: aetta demo --out aetta-demo, then
// node benchmarks/demo_pictures.mjs aetta-demo/report.html docs/images; needs playwright-core, and Chromium at CHROMIUM or
// /usr/bin/chromium.

import { resolve } from "node:path";
import { chromium } from "playwright-core";

const [report, folder] = process.argv.slice(2);
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const problems = [];

async function opened(colorScheme) {
  const page = await browser.newPage({ viewport: { width: 1080, height: 1560 }, colorScheme });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => request.url().startsWith("file:") || problems.push(`loads ${request.url()}`));
  await page.goto(`file://${resolve(report)}`);
  await page.waitForTimeout(500);
  return page;
}

try {
  for (const [colorScheme, suffix] of [["light", ""], ["dark", "-dark"]]) {
    const page = await opened(colorScheme);
    await page.locator("section", { hasText: "batch by batch" }).first().screenshot({ path: `${folder}/demo-chart${suffix}.png` });
  }
  if (problems.length) throw new Error(problems.join("; "));
} finally {
  await browser.close();
}
