// Questions to the stores. Each answers with plain arrays, or throws with words for the page.

async function ask(path, parameters) {
  const answer = await fetch(`/api/${path}?${new URLSearchParams(parameters)}`);
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer;
}

export async function instant(query) {
  const { data } = await (await ask("query", { query })).json();
  return data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
}

// Points at even steps; where a series has none there is a gap.
export async function range(query, seconds) {
  const step = Math.max(10, Math.ceil(seconds / 120 / 5) * 5);
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const start = end - seconds;
  const { data } = await (await ask("query_range", { query, start, end, step })).json();
  const series = data.result.map(({ metric, values }) => {
    const known = new Map(values.map(([time, value]) => [time, Number(value)]));
    const points = [];
    for (let time = start; time <= end; time += step) points.push([time, known.has(time) ? known.get(time) : null]);
    return { labels: metric, points };
  });
  return { start, end, step, series };
}

export async function alerts() {
  const { data } = await (await ask("alerts", {})).json();
  const order = { page: 0, ticket: 1, info: 2 };
  return (data.alerts || [])
    .map((alert) => ({ ...alert, severity: alert.labels.severity || "info" }))
    .sort((a, b) => (a.state === b.state ? order[a.severity] - order[b.severity] : a.state === "firing" ? -1 : 1));
}

export async function logs(query, limit) {
  const text = await (await ask("logs", { query, limit })).text();
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line)).sort((a, b) => (a._time < b._time ? 1 : -1));
}
