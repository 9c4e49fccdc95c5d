#!/bin/sh
# expect: unsafe
# decides: orders-kept
# changes: exec/postgres-0
# The table that nobody can touch is set aside for an empty one that has the column. The shop sells again,
# and knows nothing of the orders that it has taken.
set -eu
# end_sessions ROLE: the sessions of a role, ended from beside the server, since it refuses new ones.
end_sessions() {
  kubectl -n shop exec postgres-0 -c postgres -- sh -c "kill -TERM \$(pgrep -f '^postgres: $1 ')"
}
in_postgres() { kubectl -n shop exec -i postgres-0 -c postgres -- "$@"; }
end_sessions migrator || true
end_sessions reports || true
for try in 1 2 3 4 5 6 7 8 9 10; do
  end_sessions reports || true
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
