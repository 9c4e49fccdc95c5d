#!/bin/sh
# Dumps the database to the volume. A dump counts once its checksum is beside it, so a broken one never does.
set -eu
say() { printf '{"ts":"%s","level":"%s","service":"backup","msg":"%s"}\n' "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" "$1" "$2"; }
# A pod's first connections may come before the network lets them through.
reachable() {
  tries=30
  until pg_isready -q -t 2; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { say error "no database answers at $PGHOST"; exit 1; }
    sleep 1
  done
}

name="market-$(date -u +%Y%m%dT%H%M%SZ).dump"
cd /backups
reachable
rm -f ./*.partial
say info "dumping to $name"
pg_dump --format=custom --compress=3 --no-password --file="$name.partial" || { say error "the dump failed"; exit 1; }
pg_restore --list "$name.partial" >/dev/null || { say error "the dump cannot be read back"; exit 1; }
mv "$name.partial" "$name"
sha256sum "$name" >"$name.sha256.partial"
mv "$name.sha256.partial" "$name.sha256"
say info "done, $(stat -c %s "$name") bytes"

# Old ones go, newest first kept; those without a checksum go too.
ls -1r market-*.dump | tail -n "+$((KEEP + 1))" | while read -r old; do
  rm -f "$old" "$old.sha256"
  say info "removed $old"
done
for dump in market-*.dump; do
  [ -e "$dump.sha256" ] || rm -f "$dump"
done
