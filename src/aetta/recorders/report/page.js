"use strict";
// The batch under the pointer, in every chart at once; arrow keys walk through the batches.
const charts = [...document.querySelectorAll(".chart")].map((chart) => ({
  plot: chart.querySelector(".plot"),
  cursor: chart.querySelector(".cursor"),
  tip: chart.querySelector(".tip"),
  points: JSON.parse(chart.querySelector("script").textContent),
}));

const share = (value) => (value === null ? "unknown" : `${value.toFixed(1)} %`);

function describe(point) {
  const lines = [`batch ${point.i + 1}${point.d ? `, ${point.d.replaceAll("_", " ")}` : ""}`];
  if (point.t !== null) lines.push(`true ${share(point.t)}`);
  if (point.e !== null) lines.push(`estimated ${share(point.e)}, between ${share(point.l)} and ${share(point.h)}`);
  if (point.r) lines.push(`repaired: ${point.r}`);
  return lines.join("\n");
}

function show(index, chosen) {
  for (const { plot, cursor, tip, points } of charts) {
    const point = points[index];
    cursor.hidden = !point;
    tip.hidden = !point || plot !== chosen;
    if (!point) continue;
    const left = (100 * (index + 0.5)) / points.length;
    cursor.style.left = `${left}%`;
    if (tip.hidden) continue;
    tip.textContent = describe(point);
    const room = plot.clientWidth - tip.offsetWidth;
    const at = (left / 100) * plot.clientWidth;
    tip.style.left = `${Math.max(0, Math.min(room, at < room - 12 ? at + 12 : at - tip.offsetWidth - 12))}px`;
  }
}

for (const { plot, points } of charts) {
  let at = -1;
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    at = Math.max(0, Math.min(points.length - 1, Math.floor(((event.clientX - box.left) / box.width) * points.length)));
    show(at, plot);
  });
  plot.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -points.length, End: points.length }[event.key];
    if (event.key === "Escape") show(-1, plot);
    if (!move) return;
    event.preventDefault();
    at = Math.max(0, Math.min(points.length - 1, at + move));
    show(at, plot);
  });
  for (const leaving of ["pointerleave", "blur"]) plot.addEventListener(leaving, () => show(-1, plot));
}
