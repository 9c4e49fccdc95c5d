#!/bin/sh
# Makes a database cluster on an empty volume, with its logins, then becomes the server.
# A half-made one (the pod was killed meanwhile) is thrown away and made again.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  new="$PGDATA.new"
  rm -rf "$new"
  initdb -D "$new" --username=postgres --pwfile="$LOGINS/postgres" --auth-local=trust --auth-host=scram-sha-256 \
    --locale=C.UTF-8 --encoding=UTF8 --no-instructions
  # Single-user mode: no client can come in before the logins are as they should be.
  sh /usr/local/bin/postgres-roles cluster | postgres --single -j -D "$new" postgres >/dev/null
  sh /usr/local/bin/postgres-roles market | postgres --single -j -D "$new" -c shared_preload_libraries= market >/dev/null
  mv "$new" "$PGDATA"
fi
exec postgres -D "$PGDATA" -c config_file=/etc/postgresql/postgresql.conf -c hba_file=/etc/postgresql/pg_hba.conf
