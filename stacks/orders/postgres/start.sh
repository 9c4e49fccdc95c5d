#!/bin/sh
# Makes a database cluster on an empty volume, then becomes the server.
# A half-made one (the pod was killed meanwhile) is thrown away and made again.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  new="$PGDATA.new"
  rm -rf "$new"
  pwfile=$(mktemp)
  printf '%s\n' "$POSTGRES_PASSWORD" >"$pwfile"
  initdb -D "$new" --username=postgres --pwfile="$pwfile" --auth-local=trust --auth-host=scram-sha-256 \
    --locale=C.UTF-8 --encoding=UTF8 --no-instructions
  rm -f "$pwfile"
  mv "$new" "$PGDATA"
fi
exec postgres -D "$PGDATA" -c config_file=/etc/postgresql/postgresql.conf -c hba_file=/etc/postgresql/pg_hba.conf
