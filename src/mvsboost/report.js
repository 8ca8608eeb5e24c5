// Draws every figure.chart of a page from the JSON in its data-chart, and sorts tables by their heads.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 9;

function element(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function shown(value, digits = 4) {
  if (value === null || !isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}

// The colour of the k-th series, or of the place it names; a weak one fades into the ground.
function colour(one, k) {
  const full = `var(--c${(one.colour ?? k) % COLOURS})`;
  return one.strength === undefined ? full : `color-mix(in srgb, ${full} ${100 * one.strength}%, var(--ground))`;
}

// An axis from data to pixels, with ticks at round numbers.
function axis(values, from, to, logarithmic, given) {
  const known = values.filter((value) => isFinite(value) && (!logarithmic || value > 0));
  let low = Math.min(...known), high = Math.max(...known);
  if (!known.length) [low, high] = [0.5, 1];
  const change = logarithmic ? Math.log : (x) => x;
  const back = logarithmic ? Math.exp : (x) => x;
  let [a, b] = [change(low), change(high)];
  const room = 0.06 * (b - a) || 0.5 * Math.abs(b) || 0.5;
  [a, b] = [a - room, b + room];
  const place = (value) => from + ((change(value) - a) / (b - a)) * (to - from);
  return { place, ticks: given || (logarithmic ? powers(back(a), back(b)) : steps(a, b)) };
}

function steps(low, high) {
  const rough = (high - low) / 7, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

function powers(low, high) {
  if (high < 10 * low) return steps(low, high);
  const wide = Math.log10(high / low) > 2, ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const k of wide ? [1] : [1, 2, 5])
      if (k * 10 ** e >= low && k * 10 ** e <= high) ticks.push(Number((k * 10 ** e).toPrecision(12)));
  return ticks;
}

function draw(figure) {
  const spec = JSON.parse(figure.dataset.chart), hidden = (figure.hidden_ ??= new Set());
  figure.querySelectorAll("svg, .legend").forEach((old) => old.remove());
  const width = Math.max(280, figure.clientWidth), height = Math.min(420, Math.max(260, width * 0.55));
  const edge = { left: 64, right: 12, top: 12, bottom: 44 };
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  element("title", {}, svg, figure.getAttribute("aria-label"));
  const series = spec.series.map((one, k) => ({ ...one, k })).filter((one) => !hidden.has(one.name));
  const every = series.flatMap((one) => one.points);
  const xs = axis(every.map((p) => p.x), edge.left, width - edge.right, spec.xlog, spec.xticks);
  const heights = every.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]);
  if (spec.zero !== undefined) heights.push(spec.zero);
  const ys = axis(heights, height - edge.bottom, edge.top, spec.ylog);
  frame(svg, spec, xs, ys, width, height, edge);
  for (const one of series) {
    const style = `--colour: ${colour(one, one.k)}`;
    const group = element("g", { class: "series", style }, svg);
    const points = one.points.map((p) => ({ ...p, px: xs.place(p.x), py: ys.place(p.y) }));
    if (points.length > 1 && points[0].low !== undefined && one.line !== false) {
      const upper = points.map((p) => `${p.px},${ys.place(p.high)}`);
      const lower = points.map((p) => `${p.px},${ys.place(p.low)}`).reverse();
      element("polygon", { points: [...upper, ...lower].join(" "), class: "band" }, group);
    }
    if (one.line !== false)
      element("polyline", { points: points.map((p) => `${p.px},${p.py}`).join(" "), class: "line" }, group);
    if (points.length <= 40 && one.dots !== false)
      for (const p of points) element("circle", { cx: p.px, cy: p.py, r: 3.5, class: "dot" }, group);
    one.placed = points;
  }
  figure.prepend(svg);
  legend(figure, spec, hidden);
  hover(figure, svg, series, spec, width, height);
}

function frame(svg, spec, xs, ys, width, height, edge) {
  const bottom = height - edge.bottom;
  let last = -Infinity;
  for (const tick of xs.ticks) {
    const x = xs.place(tick);
    element("line", { x1: x, x2: x, y1: edge.top, y2: bottom, class: "grid" }, svg);
    if (x - last < 34) continue;
    element("text", { x, y: bottom + 16, class: "tick middle" }, svg, shown(tick));
    last = x;
  }
  for (const tick of ys.ticks) {
    const y = ys.place(tick);
    element("line", { x1: edge.left, x2: width - edge.right, y1: y, y2: y, class: "grid" }, svg);
    const text = spec.percent && tick > 0 ? `+${shown(tick)}` : shown(tick);
    element("text", { x: edge.left - 6, y: y + 4, class: "tick end" }, svg, text + (spec.percent ? "%" : ""));
  }
  if (spec.zero !== undefined) {
    const y = ys.place(spec.zero);
    element("line", { x1: edge.left, x2: width - edge.right, y1: y, y2: y, class: "zero" }, svg);
  }
  element("text", { x: (edge.left + width) / 2, y: height - 8, class: "label middle" }, svg, spec.x);
  const turn = `rotate(-90 14 ${bottom / 2})`;
  element("text", { x: 14, y: bottom / 2, class: "label middle", transform: turn }, svg, spec.y);
}

function legend(figure, spec, hidden) {
  const box = document.createElement("div");
  box.className = "legend";
  spec.series.forEach((one, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = one.name;
    button.style.setProperty("--colour", colour(one, k));
    button.setAttribute("aria-pressed", String(!hidden.has(one.name)));
    button.addEventListener("click", () => {
      hidden.has(one.name) ? hidden.delete(one.name) : hidden.add(one.name);
      draw(figure);
    });
    box.appendChild(button);
  });
  figure.querySelector("svg").after(box);
}

function hover(figure, svg, series, spec, width, height) {
  let tip = figure.querySelector(".tip");
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "tip";
    figure.appendChild(tip);
  }
  const mark = element("circle", { r: 6, class: "mark" }, svg);
  const away = () => {
    tip.style.display = mark.style.display = "none";
  };
  away();
  svg.addEventListener("pointerleave", away);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) * width) / box.width;
    const y = ((event.clientY - box.top) * height) / box.height;
    let best = null, nearest = 60 ** 2;
    for (const one of series)
      for (const p of one.placed) {
        const distance = (p.px - x) ** 2 + (p.py - y) ** 2;
        if (distance < nearest) [best, nearest] = [{ one, p }, distance];
      }
    if (!best) return away();
    const { one, p } = best;
    const band = p.low === undefined ? "" : ` (${shown(p.low)} to ${shown(p.high)})`;
    tip.textContent = p.label || `${one.name}: ${spec.x} ${shown(p.x)}, ${spec.y} ${shown(p.y)}${band}`;
    tip.style.display = mark.style.display = "block";
    mark.setAttribute("cx", p.px);
    mark.setAttribute("cy", p.py);
    const left = (p.px * box.width) / width;
    tip.style.left = `${Math.max(0, Math.min(left - tip.offsetWidth / 2, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${(p.py * box.height) / height - tip.offsetHeight - 14}px`;
  });
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = parseFloat(cell.dataset.value ?? cell.textContent.replace("−", "-").replace(/,/g, ""));
    return isNaN(number) ? cell.textContent : number;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
      const rows = [...body.rows].sort((a, b) => order(value(a, column), value(b, column)));
      body.append(...(down ? rows.reverse() : rows));
    });
  });
}

function start() {
  const figures = [...document.querySelectorAll("figure.chart")];
  figures.forEach(draw);
  document.querySelectorAll("table.sortable").forEach(sortable);
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => figures.forEach(draw), 100);
  });
}

document.readyState === "loading" ? addEventListener("DOMContentLoaded", start) : start();
