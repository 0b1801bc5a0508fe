// Drives the live page in headless Chromium: sees a collapse, presses the button, sees the recovery, takes pictures.
// node page.mjs URL TOKEN FOLDER; needs playwright-core, and Chromium at CHROMIUM or /usr/bin/chromium.

import { chromium } from "playwright-core";

const [url, token, folder] = process.argv.slice(2);
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const problems = [];
page.on("pageerror", (error) => problems.push(error.message));
page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
const text = (id) => page.locator(`#${id}`).innerText();
const number = async () => parseFloat(await text("now-estimate"));
const check = (holds, what) => { if (!holds) throw new Error(`not so: ${what}`); console.log(`ok  ${what}`); };
const until = async (condition, what, seconds = 300) => {
  for (const end = Date.now() + 1000 * seconds; !(await condition()); await page.waitForTimeout(300)) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
  }
  console.log(`ok  ${what}`);
};
const picture = (name, options = {}) => page.screenshot({ path: `${folder}/${name}.png`, ...options });

try {
  await page.goto(url);
  await until(async () => (await text("status")) === "live", "the page is live");
  await until(async () => (await number()) > 55, "the model is well: the estimate is above 55 %");
  await until(async () => (await number()) < 25, "the model has collapsed: the estimate is below 25 %");
  await picture("collapse");

  await page.locator("button[data-verb=reset]").click();
  await page.locator("#sure button[value=yes]").click();
  await until(async () => (await text("answer")).includes("token"), "without a token the button does nothing");
  await page.locator("#token").fill(token);
  await page.locator("#token").dispatchEvent("change");
  await page.locator("#reason").fill("collapsed on noisy images");
  await page.locator("button[data-verb=reset]").click();
  await page.locator("#sure button[value=no]").click();
  check((await text("answer")) === "", "a change of mind does nothing");
  await page.locator("button[data-verb=reset]").click();
  await page.locator("#sure button[value=yes]").click();
  await until(async () => (await text("answer")).startsWith("Done: reset"), "with the token it resets the model");
  await until(async () => (await text("audit")).includes("collapsed on noisy images"), "the audit log says who and why");
  await until(async () => (await number()) > 45, "the model has recovered: the estimate is above 45 %");
  await page.waitForTimeout(4000);

  await page.locator("#accuracy svg").focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowLeft");
  const said = await page.locator("#accuracy .readout").innerText();
  check(/batch \d+ · aetta \d/.test(said), `the arrow keys read the chart: ${said}`);
  await page.keyboard.press("Escape");
  check((await page.locator("#accuracy svg").getAttribute("aria-label")).includes("Now: batch"), "a screen reader is told what the chart shows");

  await page.locator("#freeze").click();
  await until(async () => page.locator("#brake").isVisible(), "the freeze button freezes");
  await page.locator("#resume").click();
  await until(async () => !(await page.locator("#brake").isVisible()), "the resume button resumes");
  const order = [];
  await page.locator("body").evaluate(() => document.activeElement.blur());
  for (let i = 0; i < 24; i++) {
    await page.keyboard.press("Tab");
    order.push(await page.evaluate(() => document.activeElement.id || document.activeElement.dataset.verb || document.activeElement.tagName));
  }
  check(["token", "reason", "reset", "freeze", "snapshot", "rollback"].every((each) => order.includes(each)), `every control is reached by Tab: ${order.join(" ")}`);
  await page.locator("summary").click();
  await until(async () => (await page.locator("#rows tr").count()) > 3, "the numbers are there as a table too");
  await page.locator("summary").click();

  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  await picture("page-light", { fullPage: true });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForTimeout(500);
  await picture("page-dark", { fullPage: true });
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForTimeout(800);
  check((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, "nothing sticks out on a phone");
  await picture("page-phone");
  check(problems.filter((each) => !each.includes("401")).length === 0, `no errors in the console ${problems}`);
} finally {
  await browser.close();
}
