// Charts as SVG: they take their colours from the style sheet, a cursor from the mouse, the finger or the arrow keys,
// and say what is under it to those who listen.

const SPACE = "http://www.w3.org/2000/svg";
const EDGE = { left: 46, right: 10, top: 10, bottom: 22 };

export function make(tag, attributes = {}, text = null) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}

class Chart {
  constructor(place, title) {
    this.place = place;
    this.svg = make("svg", { role: "img", tabindex: "0", "aria-label": title });
    this.readout = document.createElement("div");
    this.readout.className = "readout";
    this.readout.setAttribute("aria-live", "polite");
    place.append(this.svg, this.readout);
    this.at = null;
    this.count = 0;
    this.title = title;
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.move(null));
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.svg.addEventListener("blur", () => this.move(null));
    new ResizeObserver(() => this.redraw()).observe(place);
  }

  press(event) {
    const last = this.count - 1;
    const now = this.at === null ? last : this.at;
    const step = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: now - step, ArrowRight: now + step, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.move(to === null ? null : Math.min(last, Math.max(0, to)));
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    this.move(this.nearest(event.clientX - box.left, box.width));
  }

  move(index) {
    this.at = this.count ? index : null;
    this.redraw();
  }

  redraw() {
    const { width, height } = this.place.getBoundingClientRect();
    if (width < 60 || !this.draw) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const layers = this.draw(width, height);
    this.svg.replaceChildren(...layers);
    const said = this.at === null ? "" : this.say(this.at);
    if (this.readout.textContent !== said) this.readout.textContent = said;
  }
}

// Curves over the batches. `show` takes rows and draws them; what a row means is said by `curves`:
// [{ name, kind, value: row => number | null, low, high }]
export class Curves extends Chart {
  constructor(place, title, { curves, format, range, label }) {
    super(place, title);
    Object.assign(this, { curves, format, range, label, rows: [], marks: [] });
    this.legend = document.createElement("ul");
    this.legend.className = "legend";
    place.after(this.legend);
  }

  show(rows, marks = []) {
    const stays = this.at !== null && this.rows[this.at];
    this.rows = rows;
    this.marks = marks;
    this.count = rows.length;
    if (stays) {
      const found = rows.findIndex((row) => row.row === stays.row);
      this.at = found < 0 ? null : found;
    }
    this.redraw();
    this.explain();
  }

  explain() {
    const drawn = this.curves().filter((curve) => this.rows.some((row) => curve.value(row) !== null));
    const kinds = [...new Set(this.marks.map((mark) => mark.kind))];
    const key = JSON.stringify([drawn.map((curve) => curve.name), kinds]);
    if (key === this.explained) return;
    this.explained = key;
    const items = drawn.map((curve) => [curve.name, make("path", { d: "M0 5H26", class: `curve ${curve.kind}` })]);
    const words = { recovery: "repaired by the recovery", operator: "by an operator", server: "server restarted" };
    for (const kind of kinds) items.push([words[kind], make("path", { d: "M8 0h10l-5 9z", class: `flag ${kind}` })]);
    this.legend.replaceChildren(...items.map(([name, picture]) => {
      const item = document.createElement("li");
      const sample = make("svg", { "aria-hidden": "true", viewBox: "0 0 26 10" });
      sample.append(picture);
      item.append(sample, name);
      return item;
    }));
  }

  nearest(x, width) {
    const inner = width - EDGE.left - EDGE.right;
    return Math.min(this.count - 1, Math.max(0, Math.round(((x - EDGE.left) / inner) * (this.count - 1))));
  }

  draw(width, height) {
    const [bottom, top] = this.range(this.rows);
    const inner = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    const x = (i) => EDGE.left + (this.count < 2 ? inner.width / 2 : (i / (this.count - 1)) * inner.width);
    const y = (value) => EDGE.top + (1 - (Math.min(top, Math.max(bottom, value)) - bottom) / (top - bottom)) * inner.height;
    const layers = [];
    for (let i = 0; i <= 4; i++) {
      const value = bottom + ((top - bottom) * i) / 4;
      layers.push(make("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value), class: "grid" }));
      layers.push(make("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)));
    }
    const ticks = width < 420 ? 2 : 4;
    for (let i = 0; i <= ticks && this.count > 1; i++) {
      const at = Math.round((i / ticks) * (this.count - 1));
      const anchor = i === 0 ? "start" : i === ticks ? "end" : "middle";
      layers.push(make("text", { x: x(at), y: height - 5, "text-anchor": anchor }, this.label(this.rows[at])));
    }
    for (const mark of this.marks) {
      const place = x(mark.at);
      layers.push(make("line", { x1: place, x2: place, y1: EDGE.top, y2: height - EDGE.bottom, class: `mark ${mark.kind}` }));
      layers.push(make("path", { d: `M${place - 5} ${EDGE.top - 9}h10l-5 9z`, class: `flag ${mark.kind}` }));
    }
    for (const curve of this.curves()) {
      if (curve.low) layers.push(make("path", { d: this.band(curve, x, y), class: `band ${curve.kind}` }));
      layers.push(make("path", { d: this.path(curve.value, x, y), class: `curve ${curve.kind}` }));
    }
    if (this.at !== null) layers.push(make("line", { x1: x(this.at), x2: x(this.at), y1: EDGE.top, y2: height - EDGE.bottom, class: "cursor" }));
    this.svg.setAttribute("aria-label", `${this.title}. ${this.count ? "Now: " + this.say(this.count - 1) : "No batches yet"}`);
    return layers;
  }

  path(value, x, y) {
    let pen = "M", drawn = "";
    this.rows.forEach((row, i) => {
      const found = value(row);
      if (found === null || found === undefined) { pen = "M"; return; }
      drawn += `${pen}${x(i).toFixed(1)} ${y(found).toFixed(1)}`;
      pen = "L";
    });
    return drawn || "M0 0";
  }

  band(curve, x, y) {
    const known = this.rows.map((row, i) => [i, curve.low(row), curve.high(row)]).filter(([, low, high]) => low !== null && high !== null);
    if (known.length < 2) return "M0 0";
    const up = known.map(([i, , high]) => `${x(i).toFixed(1)} ${y(high).toFixed(1)}`);
    const down = known.reverse().map(([i, low]) => `${x(i).toFixed(1)} ${y(low).toFixed(1)}`);
    return `M${up.join("L")}L${down.join("L")}Z`;
  }

  say(index) {
    const row = this.rows[index];
    const parts = this.curves().map((curve) => [curve, curve.value(row)]).filter(([, value]) => value !== null && value !== undefined);
    const numbers = parts.map(([curve, value]) => {
      const range = curve.low && curve.low(row) !== null ? ` (${this.format(curve.low(row))} to ${this.format(curve.high(row))})` : "";
      return `${curve.name} ${this.format(value)}${range}`;
    });
    return [this.label(row), ...numbers].join(" · ");
  }
}

// How often each class was predicted, as bars.
export class Bars extends Chart {
  constructor(place, title) {
    super(place, title);
    this.shares = [];
  }

  show(shares) {
    this.shares = shares;
    this.count = shares.length;
    if (this.at !== null && this.at >= this.count) this.at = null;
    this.redraw();
  }

  nearest(x, width) {
    const inner = width - EDGE.left - EDGE.right;
    return Math.min(this.count - 1, Math.max(0, Math.floor(((x - EDGE.left) / inner) * this.count)));
  }

  draw(width, height) {
    const inner = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    const most = Math.max(0.01, ...this.shares.map((each) => each.share));
    const top = most > 0.5 ? 1 : most > 0.25 ? 0.5 : 0.25;
    const y = (share) => EDGE.top + (1 - share / top) * inner.height;
    const room = inner.width / Math.max(1, this.count);
    const layers = [];
    for (let i = 0; i <= 2; i++) {
      const share = (top * i) / 2;
      layers.push(make("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(share), y2: y(share), class: "grid" }));
      layers.push(make("text", { x: EDGE.left - 6, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(100 * share)} %`));
    }
    this.shares.forEach((each, i) => {
      const left = EDGE.left + i * room;
      const bar = { x: left + room * 0.14, y: y(each.share), width: room * 0.72, height: Math.max(0, height - EDGE.bottom - y(each.share)) };
      layers.push(make("rect", { ...bar, rx: 2, class: each.share > 0.5 ? "bar over" : "bar" }));
      if (room > 16 || i % Math.ceil(20 / room) === 0) {
        layers.push(make("text", { x: left + room / 2, y: height - 5, "text-anchor": "middle" }, each.name));
      }
    });
    if (this.count) {
      const even = 1 / this.count;
      layers.push(make("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(even), y2: y(even), class: "even" }));
    }
    const largest = this.shares.reduce((a, b) => (b.share > a.share ? b : a), { name: "none", share: 0 });
    this.svg.setAttribute("aria-label", `${this.title}. Most often: class ${largest.name}, ${Math.round(100 * largest.share)} %`);
    return layers;
  }

  say(index) {
    const each = this.shares[index];
    return `class ${each.name} · ${(100 * each.share).toFixed(1)} % · ${each.images} images`;
  }
}
