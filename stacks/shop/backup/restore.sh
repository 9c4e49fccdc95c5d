#!/bin/sh
# Restores a backup into a database of its own, beside the one in use: restore-backup [FILE] [DATABASE].
# What to take from there is then a person's decision. Needs PGUSER=postgres.
set -eu
say() { printf '{"ts":"%s","level":"%s","service":"backup-restore","msg":"%s"}\n' "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" "$1" "$2"; }
# A pod's first connections may come before the network lets them through.
reachable() {
  tries=30
  until pg_isready -q -t 2; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { say error "no database answers at $PGHOST"; exit 1; }
    sleep 1
  done
}

cd /backups
file=${1:-}
[ -n "$file" ] || file=$(ls -1r market-*.dump.sha256 2>/dev/null | head -n 1 | sed 's/\.sha256$//')
[ -n "$file" ] || { say error "there is no backup in /backups"; exit 1; }
target=${2:-market_restored}
[ "$target" != market ] || { say error "market is in use: restore beside it, then move what is needed"; exit 1; }
sha256sum --check --status "$file.sha256" || { say error "$file is damaged"; exit 1; }
reachable
say info "restoring $file into $target"
PGDATABASE=postgres psql -XAtq -v ON_ERROR_STOP=1 -v target="$target" <<'SQL'
select format('drop database if exists %I with (force)', :'target') \gexec
select format('create database %I owner migrations', :'target') \gexec
SQL
pg_restore --dbname="$target" --exit-on-error --no-password "$file"
say info "restored into $target"
