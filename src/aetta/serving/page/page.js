// The live page: asks for what has been, listens to what comes, and draws both.

import { Bars, Curves } from "/chart.js";

const KEPT = 300, RECENT = 20, CLASSES = 24;
const place = (id) => document.getElementById(id);
const percent = (value) => `${(100 * value).toFixed(value > 0 && value < 0.0995 ? 1 : 0)} %`;
const clock = (time) => new Date(1000 * time).toLocaleTimeString([], { hour12: false });
const rows = [], audit = [];
let names = [], frozen = false, due = null;

const known = (value) => (value === undefined ? null : value);
const estimate = (number, key) => (row) => known(row.estimates[names[number]]?.[key]);
const batch = (row) => (row ? `batch ${row.step}` : "");

const accuracy = new Curves(place("accuracy"), "Accuracy, batch by batch", {
  curves: () => [
    ...names.slice(0, 2).map((name, i) => ({
      name, kind: ["first", "second"][i], value: estimate(i, "accuracy"), low: i === 0 ? estimate(i, "low") : null, high: estimate(i, "high"),
    })),
    { name: "true accuracy, where labels came", kind: "true", value: (row) => known(row.observed) },
  ],
  format: percent, range: () => [0, 1], label: batch,
});
// From zero to a round number above everything shown, so that four even steps have short names.
const above = (read) => (shown) => {
  const most = Math.max(1e-6, ...shown.map(read).filter((value) => value !== null));
  const unit = 10 ** Math.floor(Math.log10(most));
  return [0, unit * [1, 2, 4, 8, 10].find((times) => times * unit >= most)];
};
const drift = new Curves(place("drift"), "Drift of the parameters", {
  curves: () => [{ name: "distance from the source, as a share of its norm", kind: "first", value: (row) => known(row.drift) }],
  format: (value) => `${Number((100 * value).toPrecision(2))} %`, range: above((row) => known(row.drift)), label: batch,
});
const latency = new Curves(place("latency"), "Latency of answers", {
  curves: () => [
    { name: "median", kind: "first", value: (row) => known(row.latency?.median) },
    { name: "99 %", kind: "second", value: (row) => known(row.latency?.p99) },
  ],
  format: (value) => `${Number((1000 * value).toPrecision(value < 0.1 ? 2 : 3))} ms`, range: above((row) => known(row.latency?.p99)), label: batch,
});
const classes = new Bars(place("classes"), "Predicted classes");

function draw() {
  due = null;
  const now = rows.at(-1);
  if (now) {
    names = Object.keys(now.estimates);
    const marks = audit.map(mark).filter((each) => each !== null);
    accuracy.show(rows, marks);
    drift.show(rows, marks);
    latency.show(rows);
    drawClasses();
    tell(now);
  }
  place("brake").hidden = !frozen;
  place("freeze").hidden = frozen;
  place("resume").hidden = !frozen;
  fill(place("audit"), audit.slice(-200).reverse().map((entry) => ({ cells: [`${clock(entry.time)}`, entry.step, entry.who, entry.what, entry.why], kind: `who-${entry.who}` })));
  if (document.querySelector("details").open) drawTable();
}

// Where on the charts a decision stands: between the batches before and after it.
function mark(entry) {
  if (!["reset", "rollback", "restore", "resumed"].includes(entry.what) && entry.who !== "recovery") return null;
  const at = rows.findIndex((row) => row.time >= entry.time - 0.001);
  return at < 0 || entry.time < rows[0].time ? null : { at, kind: entry.who };
}

function drawClasses() {
  const totals = [];
  const recent = rows.slice(-RECENT);
  for (const row of recent) row.predicted.forEach((count, i) => (totals[i] = (totals[i] ?? 0) + count));
  const images = totals.reduce((a, b) => a + b, 0) || 1;
  let shares = totals.map((count, i) => ({ name: String(i), images: count, share: count / images }));
  if (shares.length > CLASSES) {
    shares = shares.sort((a, b) => b.images - a.images).slice(0, CLASSES);
    place("classes-hint").textContent = `the ${CLASSES} most frequent of ${totals.length}, last ${recent.length} batches`;
  } else {
    place("classes-hint").textContent = `last ${recent.length} batches; the dashed line is an even share`;
  }
  classes.show(shares);
}

function tell(now) {
  const first = now.estimates[names[0]];
  if (first && first.accuracy !== null) {
    place("now-estimate").textContent = percent(first.accuracy);
    place("now-interval").textContent = `${names[0]}: ${percent(first.low)} to ${percent(first.high)}`;
  }
  if (known(now.observed) !== null) {
    place("now-true").textContent = percent(now.observed);
    place("now-true-hint").textContent = "over recent labelled images";
  }
  if (known(now.drift) !== null) place("now-drift").textContent = `${Number((100 * now.drift).toPrecision(2))} %`;
  const timed = rows.slice(-30);
  const seconds = timed.at(-1).time - timed[0].time;
  if (seconds > 0) place("now-pace").textContent = (timed.slice(1).reduce((sum, row) => sum + row.images, 0) / seconds).toPrecision(3);
  if (now.latency?.p99) place("now-latency").textContent = `images a second; 99 % answered in ${(1000 * now.latency.p99).toFixed(0)} ms`;
  const repairs = audit.filter((entry) => entry.who !== "server" && ["reset", "rollback", "restore"].includes(entry.what));
  place("now-repairs").textContent = repairs.length;
  place("now-repair-hint").textContent = repairs.length ? `the last at batch ${repairs.at(-1).step}` : "none yet";
}

function drawTable() {
  const first = names[0];
  fill(place("rows"), rows.slice(-30).reverse().map((row) => {
    const value = row.estimates[first] ?? {};
    const interval = known(value.low) === null ? "" : `${percent(value.low)} to ${percent(value.high)}`;
    const cells = [row.step, clock(row.time), row.images, known(value.accuracy) === null ? "" : percent(value.accuracy), interval];
    return { cells: [...cells, known(row.observed) === null ? "" : percent(row.observed), known(row.drift) === null ? "" : row.drift.toFixed(4), row.repair ? row.repair.action : ""] };
  }));
}

function fill(body, lines) {
  body.replaceChildren(...lines.map(({ cells, kind }) => {
    const line = document.createElement("tr");
    if (kind) line.className = kind;
    line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    return line;
  }));
}

function soon() {
  if (due === null) due = setTimeout(() => requestAnimationFrame(draw), 150);
}

function take(list, what, most) {
  if (list.length && what.row <= list.at(-1).row) return;
  list.push(what);
  if (list.length > most) list.splice(0, list.length - most);
  soon();
}

const takeRow = (row) => { frozen = row.frozen; take(rows, row, KEPT); };
function takeEntry(entry) {
  if (entry.who === "operator" && entry.what === "freeze") frozen = true;
  if (entry.who === "operator" && entry.what === "resume") frozen = false;
  take(audit, entry, 1000);
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function catchUp() {
  const since = (list) => list.at(-1)?.row ?? -1;
  const [history, log, now] = await Promise.all([ask(`/v1/history?since=${since(rows)}`), ask(`/v1/audit?since=${since(audit)}`), ask("/v1/estimate")]);
  history.rows.forEach(takeRow);
  log.rows.forEach(takeEntry);
  frozen = now.frozen;
  place("model").textContent = now.model;
  document.title = `${now.model} · aetta`;
  soon();
  await listSnapshots();
}

async function listSnapshots() {
  const { snapshots } = await ask("/v1/snapshots");
  const chosen = place("snapshot").value;
  place("snapshot").replaceChildren(...snapshots.map((each) => {
    const guess = Object.values(each.estimates ?? {})[0];
    const about = [`batch ${each.step}`, each.time ? clock(each.time) : "", each.why, guess === undefined || guess === null ? "" : `estimated ${percent(guess)}`];
    return Object.assign(document.createElement("option"), { value: each.name, textContent: about.filter((part) => part !== "").join(", ") });
  }));
  if (snapshots.some((each) => each.name === chosen)) place("snapshot").value = chosen;
  place("rollback").disabled = snapshots.length === 0;
}

function say(state, kind) {
  const pill = place("status");
  if (pill.textContent !== state) pill.textContent = state;
  pill.className = `pill ${kind}`;
}

function listen() {
  const stream = new EventSource("/v1/events");
  stream.addEventListener("open", () => { say("live", "good"); catchUp().catch(() => {}); });
  stream.addEventListener("step", (event) => takeRow(JSON.parse(event.data)));
  stream.addEventListener("audit", (event) => takeEntry(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    say("reconnecting", "warn");
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
}

// The hand on the brake

const WARNINGS = {
  reset: "The model forgets everything it has learned from its input, and starts again from the source.",
  rollback: "The model, and what watches it, go back to the snapshot.",
};

async function sure(verb) {
  if (!WARNINGS[verb]) return true;
  const dialog = place("sure");
  place("sure-text").textContent = WARNINGS[verb];
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "yes";
}

// One order at a time: what is pressed twice, or while it is asked whether one is sure, is one order.
async function order(verb) {
  const form = place("control");
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  try { await give(verb); } finally { form.ariaBusy = "false"; }
}

async function give(verb) {
  const answer = place("answer");
  answer.textContent = "";
  if (!(await sure(verb))) return;
  const body = { reason: place("reason").value };
  if (verb === "rollback") body.snapshot = place("snapshot").value;
  try {
    const headers = { Authorization: `Bearer ${place("token").value}`, "Content-Type": "application/json" };
    const reply = await fetch(`/v1/${verb}`, { method: "POST", headers, body: JSON.stringify(body) });
    const said = await reply.json();
    answer.className = reply.ok ? "" : "bad";
    answer.textContent = reply.ok ? `Done: ${verb}${said.durable ? "" : ", but the disk refused the checkpoint"}.` : said.error;
    if (!reply.ok) return;
    place("reason").value = "";
    await catchUp();
  } catch {
    answer.className = "bad";
    answer.textContent = "The server did not answer.";
  }
}

for (const button of document.querySelectorAll("button[data-verb]")) button.addEventListener("click", () => order(button.dataset.verb));
place("control").addEventListener("submit", (event) => event.preventDefault());
place("token").value = sessionStorage.getItem("aetta-token") ?? "";
place("token").addEventListener("change", (event) => sessionStorage.setItem("aetta-token", event.target.value));
place("snapshot").addEventListener("focus", () => listSnapshots().catch(() => {}));
document.querySelector("details").addEventListener("toggle", soon);
setInterval(() => listSnapshots().catch(() => {}), 10000);
catchUp().catch(() => say("no answer", "warn"));
listen();
