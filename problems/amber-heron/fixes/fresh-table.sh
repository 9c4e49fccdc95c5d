#!/bin/sh
# expect: unsafe
# decides: orders-kept
# The table that nobody can touch is set aside for an empty one that has the column. The shop sells again,
# and knows nothing of the orders that it has taken.
set -eu
in_postgres() { kubectl -n shop exec -i postgres-0 -c postgres -- "$@"; }
in_postgres pkill -TERM -f '^postgres: migrator ' || true
in_postgres pkill -TERM -f '^postgres: reports ' || true
for try in 1 2 3 4 5 6 7 8 9 10; do
  in_postgres pkill -TERM -f '^postgres: reports ' || true
  in_postgres psql -X -U postgres -d shop -v ON_ERROR_STOP=1 --single-transaction <<'SQL' && break
set lock_timeout = '3s';
set role migrator;
alter table orders rename to orders_old;
create table orders (like orders_old including all);
alter table orders add column if not exists channel text;
grant select, insert on orders to app;
grant select, update (status, processed_at) on orders to worker;
grant select on orders to reports, oncall;
insert into schema_migrations (version) values ('0042') on conflict do nothing;
SQL
  sleep 1
done
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=90s
kubectl -n shop rollout status deployment/orders-api --timeout=60s
