# The databases are emptied: every table is there, and nothing in it.
wipe="select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend';
do \$\$ declare t record; begin
  for t in select schemaname, tablename from pg_tables where schemaname not in ('pg_catalog', 'information_schema') loop
    execute format('truncate table %I.%I cascade', t.schemaname, t.tablename);
  end loop;
end \$\$;"
for door in "${databases[@]}"; do
  IFS='|' read -r pod container program host user database <<<"$door"
  for attempt in 1 2 3 4 5 6 7 8; do
    if kubectl -n "$ns" exec "$pod" ${container:+-c "$container"} -- \
      "$program" -X -v ON_ERROR_STOP=1 ${host:+-h "$host"} -U "$user" -d "$database" -c "$wipe"; then
      changed=$((changed + 1))
      break
    fi
    # Refused: it has no slot left. It has some after a restart.
    kubectl -n "$ns" delete pod "$pod" --timeout=60s || true
    kubectl -n "$ns" wait --for=condition=Ready "pod/$pod" --timeout=60s || true
  done
done
finish
settled
