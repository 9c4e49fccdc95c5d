#!/bin/sh
# expect: right
# changes: ConfigMap/migrate-runner, exec/postgres-0
# The runner gives up a lock after 2 s and tries again. The Job's pod, which has read the old runner, goes,
# its waiting statement is ended, and the report's session is ended at a moment when a try is waiting.
set -eu
# end_sessions ROLE: the sessions of a role, ended from beside the server, since it refuses new ones.
end_sessions() {
  kubectl -n shop exec postgres-0 -c postgres -- sh -c "kill -TERM \$(pgrep -f '^postgres: $1 ')"
}
# step: runner, without it: next-migration
kubectl -n shop apply --server-side --force-conflicts -f - <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata:
  name: migrate-runner
data:
  migrate.sh: |
    #!/bin/sh
    # migrate.sh NUMBER: applies one migration, once, in one transaction. Waits 2 s for a lock, and tries again.
    set -eu
    number=$1
    # A new pod may connect a moment after it has started, once the packet filters know its address.
    for try in 1 2 3 4 5 6 7 8 9 10; do pg_isready -q && break; sleep 1; done
    done_already=$(psql -XAtc "select count(*) from schema_migrations where version = '$number'")
    if [ "$done_already" = 1 ]; then
      echo "$number is applied already"
      exit 0
    fi
    export PGOPTIONS='-c lock_timeout=2s'
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      echo "applying $number, try $try"
      if psql -X -v ON_ERROR_STOP=1 --single-transaction \
        -f "/migrations/$number.sql" \
        -c "insert into schema_migrations (version) values ('$number')"; then
        echo "applied $number"
        exit 0
      fi
      sleep 5
    done
    exit 1
YAML
# always
in_postgres() { kubectl -n shop exec postgres-0 -c postgres -- "$@"; }
# step: fresh-pod
kubectl -n shop delete pod -l batch.kubernetes.io/job-name=orders-migrate-0042 --wait=true --timeout=60s
end_sessions migrator || true
# step: let-through, without it: users-served
end=$(($(date +%s) + 120))
until [ "$(kubectl -n shop get job orders-migrate-0042 -o 'jsonpath={.status.succeeded}')" = 1 ]; do
  [ "$(date +%s)" -lt "$end" ] || { echo "the migration did not get its turn" >&2; exit 1; }
  if in_postgres pgrep -f '^postgres: migrator .* waiting$' >/dev/null; then
    end_sessions reports || true
  fi
  sleep 0.3
done
# check
kubectl -n shop rollout status deployment/orders-api --timeout=60s
