// What each page shows: title, hint, unit, query, and how a line is called.

const by = (...keys) => (labels) => keys.map((key) => labels[key]).filter(Boolean).join(" ") || "all";
const fixed = (text) => () => text;
const several = (pairs) => pairs.map(([query, name]) => ({ query, name: fixed(name) }));

export const journey = (name) => [
  { title: "Requests", hint: "by status", unit: "/s", query: `sum by (status) (rate(http_requests_total{service="gateway",journey="${name}"}[1m]))`, name: by("status") },
  { title: "Failed requests", hint: "objective 0.5 %", unit: "%", query: `{__name__=~"journey:errors:ratio_rate(1m|5m|30m)",journey="${name}"}`, name: (labels) => (labels.__name__ || "").replace("journey:errors:ratio_rate", "over ") },
  { title: "Slow requests", hint: "objective 1 %", unit: "%", query: `{__name__=~"journey:slow:ratio_rate(1m|5m|30m)",journey="${name}"}`, name: (labels) => (labels.__name__ || "").replace("journey:slow:ratio_rate", "over ") },
  {
    title: "Time to answer", hint: "at the front door", unit: "s",
    parts: several([0.5, 0.95, 0.99].map((part) => [`histogram_quantile(${part}, sum by (le) (rate(http_request_duration_seconds_bucket{service="gateway",journey="${name}"}[1m])))`, `p${part * 100}`])),
  },
];

export const service = (app) => [
  { title: "Requests", hint: "by status", unit: "/s", query: `sum by (status) (rate(http_requests_total{app="${app}"}[1m]))`, name: by("status") },
  {
    title: "Time to answer", hint: "all routes", unit: "s",
    parts: several([0.5, 0.95, 0.99].map((part) => [`histogram_quantile(${part}, sum by (le) (rate(http_request_duration_seconds_bucket{app="${app}"}[1m])))`, `p${part * 100}`])),
  },
  { title: "Failed requests", hint: "by route", unit: "%", query: `sum by (route) (rate(http_requests_total{app="${app}",status=~"5.."}[1m])) / sum by (route) (rate(http_requests_total{app="${app}"}[1m]))`, name: by("route") },
  { title: "Calls of others", hint: "by target and status", unit: "/s", query: `sum by (target, status) (rate(http_client_requests_total{app="${app}"}[1m]))`, name: by("status", "target"), optional: true },
  { title: "Time of calls", hint: "p95 by target", unit: "s", query: `histogram_quantile(0.95, sum by (target, le) (rate(http_client_duration_seconds_bucket{app="${app}"}[1m])))`, name: by("target"), optional: true },
  { title: "Database connections", hint: "pool, by state", unit: "", query: `sum by (pod, state) (db_pool_connections{app="${app}"})`, name: by("state", "pod"), optional: true },
  { title: "Wait for a connection", hint: "p95", unit: "s", query: `histogram_quantile(0.95, sum by (pod, le) (rate(db_pool_wait_seconds_bucket{app="${app}"}[1m])))`, name: by("pod"), optional: true },
  { title: "Messages", hint: "by result", unit: "/s", query: `sum by (subject, result) (rate(queue_messages_total{app="${app}"}[1m]))`, name: by("result", "subject"), optional: true },
  { title: "Messages waiting", hint: "by consumer", unit: "", query: `max by (consumer) (queue_pending{app="${app}"})`, name: by("consumer"), optional: true },
  { title: "Processor", hint: "cores", unit: "", query: `sum by (pod) (rate(container_cpu_usage_seconds_total{container!="",pod=~"${app}-.*"}[1m]))`, name: by("pod") },
  { title: "Memory", hint: "working set", unit: "B", query: `sum by (pod) (container_memory_working_set_bytes{container!="",pod=~"${app}-.*"})`, name: by("pod") },
  {
    title: "Pods", hint: "available of desired", unit: "",
    parts: several([[`sum(kube_deployment_status_replicas_available{deployment="${app}"})`, "available"], [`sum(kube_deployment_spec_replicas{deployment="${app}"})`, "desired"], [`sum(kube_pod_container_status_restarts_total{pod=~"${app}-.*"})`, "restarts"]]),
  },
];

export const stores = [
  { title: "PostgreSQL connections", hint: "by login", unit: "", query: `sum by (instance, login) (pg_connections)`, name: by("login", "instance") },
  { title: "PostgreSQL sessions", hint: "by state", unit: "", query: `sum by (instance, state) (pg_connections)`, name: by("state", "instance") },
  { title: "Transactions", hint: "by result", unit: "/s", query: `sum by (instance, result) (rate(pg_transactions_total[1m]))`, name: by("result", "instance") },
  { title: "Waiting for locks", hint: "sessions", unit: "", query: `max by (instance) (pg_locks_waiting)`, name: by("instance") },
  { title: "Longest transaction", hint: "", unit: "s", query: `max by (instance) (pg_longest_transaction_seconds)`, name: by("instance") },
  { title: "Replication lag", hint: "", unit: "s", query: `max by (instance) (pg_replication_lag_seconds{instance!="postgres"})`, name: by("instance"), optional: true },
  { title: "PgBouncer clients", hint: "by state", unit: "", query: `sum by (database, state) (pgbouncer_clients)`, name: by("state", "database") },
  { title: "PgBouncer", hint: "longest wait", unit: "s", query: `max by (database) (pgbouncer_longest_wait_seconds)`, name: by("database") },
  { title: "Redis memory", hint: "used and limit", unit: "B", parts: several([["sum by (instance) (redis_memory_used_bytes)", "used"], ["max(redis_memory_max_bytes)", "limit"]]) },
  { title: "Redis", hint: "commands", unit: "/s", query: `sum by (instance) (rate(redis_commands_total[1m]))`, name: by("instance") },
  { title: "Streams", hint: "messages waiting by consumer", unit: "", query: `max by (stream, consumer) (nats_consumer_pending)`, name: by("consumer", "stream") },
  { title: "memcached", hint: "look-ups", unit: "/s", parts: several([["sum(rate(memcached_get_hits_total[1m]))", "hits"], ["sum(rate(memcached_get_misses_total[1m]))", "misses"]]) },
  { title: "Memory", hint: "working set, namespace data", unit: "B", query: `sum by (pod) (container_memory_working_set_bytes{container!="",namespace="data"})`, name: by("pod") },
  { title: "Processor", hint: "cores, namespace data", unit: "", query: `sum by (pod) (rate(container_cpu_usage_seconds_total{container!="",namespace="data"}[1m]))`, name: by("pod") },
];

export const cluster = [
  { title: "Processor", hint: "cores, by node", unit: "", query: `sum by (node) (rate(container_cpu_usage_seconds_total{container!=""}[1m]))`, name: by("node") },
  { title: "Memory", hint: "working set, by node", unit: "B", query: `sum by (node) (container_memory_working_set_bytes{container!=""})`, name: by("node") },
  { title: "Pods", hint: "by phase", unit: "", query: `sum by (phase) (kube_pod_status_phase)`, name: by("phase") },
  { title: "Restarts", hint: "in the last 5 minutes, by pod", unit: "", query: `sum by (pod) (increase(kube_pod_container_status_restarts_total[5m])) > 0`, name: by("pod"), optional: true },
  { title: "Processor", hint: "cores, the ten greatest", unit: "", query: `topk(10, sum by (pod) (rate(container_cpu_usage_seconds_total{container!=""}[1m])))`, name: by("pod") },
  { title: "Memory", hint: "the ten greatest", unit: "B", query: `topk(10, sum by (pod) (container_memory_working_set_bytes{container!=""}))`, name: by("pod") },
];
