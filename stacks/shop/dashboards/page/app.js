// Pages by the address after "#": overview, journey/<name>, service/<name>, stores, cluster, logs/<words>.

import { alerts, instant, logs, range } from "./data.js";
import { chart, format, spark } from "./chart.js";
import * as panels from "./panels.js";

const EVERY = 10000;
const PAGES = [["overview", "Overview"], ["stores", "Stores"], ["cluster", "Cluster"], ["logs", "Logs"]];
const main = document.getElementById("main");
const chosen = document.getElementById("range");
let turn = 0;

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const seconds = () => Number(chosen.value);
const place = () => decodeURIComponent(location.hash.replace(/^#\/?/, "") || "overview").split("/");
const index = (rows, key) => new Map(rows.map((row) => [row.labels[key], row.value]));
const worse = (value, warn, bad) => (value >= bad ? "bad" : value >= warn ? "warn" : "good");

function section(title, kind) {
  const head = document.createElement("h2"), box = document.createElement("div");
  head.textContent = title;
  box.className = kind;
  main.append(head, box);
  return box;
}

async function filled(panel) {
  try {
    const asked = await Promise.all((panel.parts || [panel]).map(async (part) => {
      const found = await range(part.query, seconds());
      return { ...found, series: found.series.map((one) => ({ ...one, labels: { shown: part.name(one.labels) } })) };
    }));
    return { ...panel, data: { ...asked[0], series: asked.flatMap((one) => one.series) }, name: (labels) => escaped(labels.shown) };
  } catch (error) {
    return { ...panel, failed: error.message };
  }
}

function draw(box, panel) {
  if (panel.optional && !panel.failed && !panel.data.series.length) return;
  const cell = box.appendChild(Object.assign(document.createElement("div"), { className: "card" }));
  if (panel.failed) cell.innerHTML = `<h3>${panel.title}</h3><div class="none">${escaped(panel.failed)}</div>`;
  else chart(cell, panel);
}

function alertTable(found) {
  if (!found.length) return `<div class="none"><span class="good">●</span> no alert is pending or firing</div>`;
  const rows = found.map((alert) => `<tr><td><span class="pill ${alert.state === "firing" ? (alert.severity === "page" ? "bad" : alert.severity === "ticket" ? "warn" : "") : ""}">${alert.state === "firing" ? alert.severity : "pending"}</span></td>
    <td><b>${escaped(alert.name)}</b></td><td>${escaped(alert.annotations.summary || "")}</td><td class="meta">since ${alert.activeAt.slice(11, 16)}</td><td class="meta">${escaped(alert.annotations.runbook || "")}</td></tr>`);
  return `<table>${rows.join("")}</table>`;
}

async function overview() {
  const [rates, errors, p99, traffic, appRates, appErrors, appTimes, ready, wanted, found, orders] = await Promise.all([
    instant("journey:http_requests:rate5m"), instant("journey:errors:ratio_rate5m"), instant("journey:duration_seconds:p99_5m"),
    range("sum by (journey) (rate(http_requests_total{service=\"gateway\",journey!=\"\"}[1m]))", seconds()),
    range("sum by (app) (rate(http_requests_total[1m]))", seconds()),
    instant("sum by (app) (rate(http_requests_total{status=~\"5..\"}[5m])) / sum by (app) (rate(http_requests_total[5m]))"),
    instant("histogram_quantile(0.99, sum by (app, le) (rate(http_request_duration_seconds_bucket[5m])))"),
    instant("sum by (deployment) (kube_deployment_status_replicas_available{namespace=\"shop\"})"),
    instant("sum by (deployment) (kube_deployment_spec_replicas{namespace=\"shop\"})"),
    alerts(), instant("sum(rate(http_requests_total{service=\"gateway\",journey=\"checkout\",status=~\"2..\"}[5m])) * 60"),
  ]);
  const total = rates.reduce((sum, row) => sum + row.value, 0);
  const failed = rates.reduce((sum, row) => sum + row.value * (index(errors, "journey").get(row.labels.journey) || 0), 0) / (total || 1);
  const firing = found.filter((alert) => alert.state === "firing" && alert.severity !== "info");
  const slowest = Math.max(0, ...p99.map((row) => row.value));
  return () => {
    section("Now", "tiles").innerHTML = [
      [format(total, "/s"), "requests at the front door", ""], [format(failed, "%"), "of them failed", worse(failed, 0.005, 0.03)],
      [format(slowest, "s"), "p99 of the slowest journey", worse(slowest, 1, 2.5)], [format(orders[0]?.value, ""), "checkouts per minute", ""],
      [firing.length, "alerts firing", worse(firing.length, 1, 3)],
    ].map(([value, text, tone]) => `<div class="card tile"><b class="${tone}">${value}</b><span>${text}</span></div>`).join("");
    section("Alerts", "card").innerHTML = alertTable(found);
    const lines = new Map(traffic.series.map((one) => [one.labels.journey, one.points]));
    const rows = rates.sort((a, b) => b.value - a.value).map(({ labels: { journey }, value }) => {
      const bad = index(errors, "journey").get(journey) ?? 0, slow = index(p99, "journey").get(journey);
      return `<tr data-to="#/journey/${journey}"><td><span class="dot ${worse(bad, 0.005, 0.03)}"></span> &nbsp;<b>${journey}</b></td><td style="width:40%">${spark(lines.get(journey) || [])}</td><td class="n">${format(value, "/s")}</td><td class="n ${worse(bad, 0.005, 0.03)}">${format(bad, "%")}</td><td class="n">${format(slow, "s")}</td></tr>`;
    });
    section("Journeys", "card").innerHTML = `<table><tr><th>journey</th><th>requests</th><th class="n">now</th><th class="n">failed</th><th class="n">p99</th></tr>${rows.join("")}</table>`;
    const states = index(ready, "deployment"), desired = index(wanted, "deployment");
    const calls = new Map(appRates.series.map((one) => [one.labels.app, one.points]));
    const names = [...new Set([...desired.keys(), ...calls.keys()])].filter(Boolean).sort();
    section("Services", "cards").innerHTML = names.map((app) => {
      const bad = index(appErrors, "app").get(app) || 0, slow = index(appTimes, "app").get(app), points = calls.get(app) || [];
      const missing = desired.has(app) && (states.get(app) || 0) < desired.get(app);
      const tone = missing && !states.get(app) ? "bad" : missing ? "warn" : worse(bad, 0.01, 0.05);
      return `<a class="card" href="#/service/${app}"><h3><span><span class="dot ${tone}"></span> ${app}</span><i>${desired.has(app) ? `${states.get(app) || 0} of ${desired.get(app)} pods` : ""}</i></h3>${spark(points)}<div class="meta">${format(points.findLast?.(([, v]) => v !== null)?.[1], "/s")} · ${format(bad, "%")} failed · p99 ${format(slow, "s")}</div></a>`;
    }).join("");
  };
}

function lineOf(row) {
  const rest = Object.entries(row).filter(([key]) => !/^(_|kubernetes\.|ts$|level$|service$|msg$)/.test(key)).map(([key, value]) => `${key}=${value}`).join(" ");
  const tone = /error|critical|fatal/i.test(row.level || "") ? "bad" : /warn/i.test(row.level || "") ? "warn" : "";
  return `<div><time>${row._time.slice(11, 23)}</time><span class="${tone}">${escaped((row.level || "").padEnd(7))}</span> ${escaped(row["kubernetes.pod_name"] || "")}  ${escaped(row._msg || "")} <span class="meta">${escaped(rest)}</span></div>`;
}

async function logBox(title, query) {
  const rows = await logs(`${query} _time:${seconds()}s | sort by (_time desc)`, 60).catch(() => []);
  return () => { section(title, "card log").innerHTML = rows.length ? rows.map(lineOf).join("") : `<div class="none">no such lines in this range</div>`; };
}

// Everything is asked for before anything is drawn, so that a page does not flicker.
async function show(title, list) {
  const all = await Promise.all(list.map(filled));
  return () => {
    main.insertAdjacentHTML("beforeend", `<h1>${title}</h1>`);
    const box = section("Metrics", "grid");
    all.forEach((panel) => draw(box, panel));
  };
}

const routes = {
  overview: async () => [await overview()],
  stores: async () => [await show("Stores <small>PostgreSQL, PgBouncer, Redis, NATS, memcached</small>", panels.stores)],
  cluster: async () => [await show("Cluster", panels.cluster)],
  journey: async (name) => [await show(`${escaped(name)} <small>journey, at the front door</small>`, panels.journey(name))],
  service: async (name) => [await show(`${escaped(name)} <small>service</small>`, panels.service(name)), await logBox("Warnings and errors", `kubernetes.pod_name:~"^${name}-" (level:error OR level:warning OR level:warn)`)],
  logs: async (words) => [await logBox("Last lines", words || "*")],
};

async function render() {
  const mine = ++turn;
  const [page, ...rest] = place();
  document.getElementById("nav").innerHTML = PAGES.map(([key, title]) => `<a href="#/${key}" class="${key === page ? "here" : ""}">${title}</a>`).join("");
  const height = main.offsetHeight, scrolled = scrollY;
  try {
    const steps = await (routes[page] || routes.overview)(rest.join("/"));
    if (mine !== turn) return;
    main.style.minHeight = `${height}px`;
    main.replaceChildren();
    for (const step of steps) step();
    scrollTo(0, scrolled);
    main.style.minHeight = "";
  } catch (error) {
    if (mine === turn) main.innerHTML = `<div class="card none">The stores do not answer: ${escaped(error.message)}</div>`;
  }
  document.getElementById("clock").textContent = `${new Date().toISOString().slice(11, 19)} UTC`;
  document.body.dataset.ready = String(mine);
}

main.addEventListener("click", (event) => { const row = event.target.closest("tr[data-to]"); if (row) location.hash = row.dataset.to; });
addEventListener("hashchange", () => { scrollTo(0, 0); render(); });
chosen.addEventListener("change", render);
setInterval(() => { if (!document.hidden) render(); }, EVERY);
render();
