// Lines over time as SVG, with a cross-hair that tells each line's value.

const COLORS = ["#3b76e1", "#e0823d", "#2f9e63", "#b0529b", "#c9a227", "#3aa6b9", "#d14f4f", "#7a6ff0", "#7d8794", "#8aa83a"];
const BY_NAME = [[/^(5|error|fail|bad)/, "#d14f4f"], [/^4/, "#e0823d"], [/^3/, "#7d8794"], [/^2|^ok/, "#2f9e63"]];
const WIDTH = 560, HEIGHT = 150, LEFT = 58, RIGHT = 8, TOP = 8, BOTTOM = 20;

export function format(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (unit === "s") return size < 1 ? `${round(value * 1000)} ms` : size < 120 ? `${round(value)} s` : size < 7200 ? `${round(value / 60)} min` : size < 172800 ? `${round(value / 3600)} h` : `${round(value / 86400)} d`;
  if (unit === "%") return `${round(value * 100)} %`;
  if (unit === "B") {
    for (const [limit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (size >= limit) return `${round(value / limit)} ${name}`;
    return `${round(value)} B`;
  }
  const short = size >= 1e6 ? `${round(value / 1e6)} M` : size >= 1e4 ? `${round(value / 1e3)} k` : round(value);
  return unit ? `${short} ${unit}` : String(short);
}

function round(value) {
  const size = Math.abs(value);
  return Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3));
}

export const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);

function colorOf(name, index) {
  for (const [pattern, color] of BY_NAME) if (pattern.test(name)) return color;
  return COLORS[index % COLORS.length];
}

function ceiling(value, unit) {
  if (unit === "%") for (const limit of [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]) if (value <= limit) return limit;
  if (value <= 0) return 1;
  if (unit === "B") return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 3, 5, 10]) if (value <= factor * power) return factor * power;
  return value;
}

function path(points, x, y) {
  let text = "", pen = false;
  for (const [time, value] of points) {
    if (value === null) { pen = false; continue; }
    text += `${pen ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  }
  return text;
}

function area(points, x, y, bottom) {
  const known = points.filter(([, value]) => value !== null);
  return `M${x(known[0][0]).toFixed(1)} ${bottom}${known.map(([time, value]) => `L${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("")}L${x(known.at(-1)[0]).toFixed(1)} ${bottom}Z`;
}

export function spark(points, color = "var(--accent)", width = 190, height = 34) {
  const values = points.map(([, value]) => value).filter((value) => value !== null);
  if (!values.length) return `<svg viewBox="0 0 ${width} ${height}" height="${height}"></svg>`;
  const top = Math.max(...values, 1e-9), first = points[0][0], last = points.at(-1)[0];
  const x = (time) => ((time - first) / (last - first || 1)) * width;
  const y = (value) => height - 2 - (value / top) * (height - 6);
  return `<svg viewBox="0 0 ${width} ${height}" height="${height}" preserveAspectRatio="none"><path d="${area(points, x, y, height)}" fill="${color}" opacity=".1"/><path d="${path(points, x, y)}" fill="none" stroke="${color}" stroke-width="1.6" vector-effect="non-scaling-stroke"/></svg>`;
}

export function chart(element, { title, hint, unit, data, name }) {
  const lines = data.series.map((one, index) => ({ name: name(one.labels), points: one.points, index }));
  lines.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  lines.forEach((line, index) => { line.color = colorOf(line.name, index); line.now = line.points.findLast(([, v]) => v !== null)?.[1] ?? null; });
  const top = ceiling(Math.max(0, ...lines.flatMap((line) => line.points.map(([, value]) => value ?? 0))), unit);
  const x = (time) => LEFT + ((time - data.start) / (data.end - data.start)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  let svg = "";
  for (const part of [0, 0.5, 1]) svg += `<line class="gridline" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(part * top)}" y2="${y(part * top)}"/><text x="${LEFT - 6}" y="${y(part * top) + 4}" text-anchor="end">${format(part * top, unit)}</text>`;
  for (let i = 0; i <= 4; i++) {
    const time = data.start + ((data.end - data.start) * i) / 4;
    svg += `<text x="${x(time)}" y="${HEIGHT - 4}" text-anchor="${i === 0 ? "start" : i === 4 ? "end" : "middle"}">${clock(time)}</text>`;
  }
  for (const line of lines) svg += `<path d="${path(line.points, x, y)}" fill="none" stroke="${line.color}" stroke-width="1.6" stroke-linejoin="round"/>`;
  element.innerHTML = `<h3>${title}<i>${hint || ""}</i></h3><svg viewBox="0 0 ${WIDTH} ${HEIGHT}">${svg}<line class="cross" y1="${TOP}" y2="${HEIGHT - BOTTOM}" visibility="hidden"/></svg>`
    + (lines.length ? `<div class="legend">${lines.map((line) => `<span style="--c:${line.color}">${line.name}<b>${format(line.now, unit)}</b></span>`).join("")}</div>` : `<div class="none">no data in this range</div>`);
  follow(element, lines, data, x, unit);
}

function follow(element, lines, data, x, unit) {
  const svg = element.querySelector("svg"), cross = element.querySelector(".cross"), hint = element.querySelector("h3 i");
  const values = element.querySelectorAll(".legend b"), said = hint.textContent;
  const show = (index) => {
    cross.setAttribute("visibility", index === null ? "hidden" : "visible");
    if (index !== null) { const at = x(data.start + index * data.step); cross.setAttribute("x1", at); cross.setAttribute("x2", at); }
    hint.textContent = index === null ? said : clock(data.start + index * data.step);
    lines.forEach((line, i) => { values[i].textContent = format(index === null ? line.now : line.points[index]?.[1], unit); });
  };
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    if (part < 0 || part > 1) return show(null);
    show(Math.round((part * (data.end - data.start)) / data.step));
  });
  svg.addEventListener("mouseleave", () => show(null));
}
