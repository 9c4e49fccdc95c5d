#!/bin/sh
# expect: wrong
# decides: report-runs
# changes: exec/postgres-0
# The report's login may not be idle in a transaction for more than a second. It pauses for two between
# batches, so it is thrown out at each and never gets anywhere.
set -eu
# end_sessions ROLE: the sessions of a role, ended from beside the server, since it refuses new ones.
end_sessions() {
  kubectl -n shop exec postgres-0 -c postgres -- sh -c "kill -TERM \$(pgrep -f '^postgres: $1 ')"
}
in_postgres() { kubectl -n shop exec postgres-0 -c postgres -- "$@"; }
end_sessions reports
for try in 1 2 3 4 5 6 7 8 9 10; do
  in_postgres psql -X -U postgres -d shop -c "alter role reports set idle_in_transaction_session_timeout = '1s'" && break
  sleep 1
done
end_sessions reports || true
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=60s
kubectl -n shop rollout status deployment/orders-api --timeout=60s
