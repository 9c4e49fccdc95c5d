#!/bin/sh
# expect: right
# changes: exec/postgres-0
# The report's session is ended once, which lets the migration through, and the migrating login never
# again waits more than 2 s for a lock, whatever script it runs.
set -eu
# end_sessions ROLE: the sessions of a role, ended from beside the server, since it refuses new ones.
end_sessions() {
  kubectl -n shop exec postgres-0 -c postgres -- sh -c "kill -TERM \$(pgrep -f '^postgres: $1 ')"
}
in_postgres() { kubectl -n shop exec postgres-0 -c postgres -- "$@"; }
# step: end-session, without it: users-served
end_sessions reports
# check
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=60s
# step: cap-role, without it: next-migration
for try in 1 2 3 4 5 6 7 8 9 10; do
  in_postgres psql -X -U postgres -d shop -c "alter role migrator set lock_timeout = '2s'" && break
  sleep 1
done
# check
in_postgres psql -XAt -U postgres -d shop -c "select setconfig from pg_db_role_setting" | grep -q 'lock_timeout=2s'
kubectl -n shop rollout status deployment/orders-api --timeout=60s
