#!/bin/sh
# Clones the primary onto an empty volume, then follows it through a slot of its own.
# On a volume that has data it goes on where it was; a half-made clone is thrown away.
set -eu
export PGPASSFILE=/tmp/pgpass PGAPPNAME="$SLOT"
(umask 077 && printf '*:*:*:replication:%s\n' "$(cat "$LOGINS/replication")" >"$PGPASSFILE")
link="host=$PRIMARY port=5432 user=replication application_name=$SLOT passfile=$PGPASSFILE connect_timeout=5"

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  new="$PGDATA.new"
  rm -rf "$new"
  until pg_isready -q -h "$PRIMARY" -t 3; do
    echo "waiting for the primary at $PRIMARY" >&2
    sleep 1
  done
  # The slot may be there already, of a clone that came to nothing or of a volume that was replaced.
  have=$(psql -XAtq "$link dbname=postgres" -c "select count(*) from pg_replication_slots where slot_name = '$SLOT'")
  [ "$have" -gt 0 ] || psql -XAtq "$link dbname=postgres" \
    -c "select pg_create_physical_replication_slot('$SLOT', true)" >/dev/null
  pg_basebackup -d "$link" -D "$new" -X stream -S "$SLOT" -c fast
  touch "$new/standby.signal"
  mv "$new" "$PGDATA"
fi
exec postgres -D "$PGDATA" -c config_file=/etc/postgresql/postgresql.conf -c hba_file=/etc/postgresql/pg_hba.conf \
  -c primary_conninfo="$link" -c primary_slot_name="$SLOT"
