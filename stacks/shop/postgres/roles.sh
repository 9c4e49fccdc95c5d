#!/bin/sh
# Prints the SQL of a new database cluster: `cluster` its logins and the database, `market` what
# is needed inside the database. Each statement ends with an empty line, as single-user mode wants it.
set -eu

# A login with the password from the mounted Secret, where it names one.
login() {
  [ -s "$LOGINS/$1" ] || return 0
  password=$(sed "s/'/''/g" "$LOGINS/$1")
  printf "create role %s login password '%s' %s;\n\n" "$1" "$password" "${2-}"
}

case $1 in
cluster)
  login replication replication
  login pgbouncer
  login monitoring
  login migrations createrole
  login oncall
  login backup
  for name in catalog accounts orders payments inventory shipping notify flags backoffice settlement reports; do
    login $name
  done
  printf 'grant pg_monitor to monitoring;\n\n'
  printf 'grant pg_read_all_data, pg_monitor, pg_signal_backend to oncall with admin option;\n\n'
  printf 'grant pg_read_all_data to backup with admin option;\n\n'
  printf 'create database market owner migrations;\n\n'
  ;;
market)
  cat <<'SQL'
create extension pg_stat_statements;

create schema pgbouncer authorization pgbouncer;

create function pgbouncer.lookup(name text, out login name, out secret text) returns record
language sql security definer set search_path = pg_catalog as
$$ select usename, passwd from pg_shadow where usename = name and not usesuper and not userepl $$;

revoke all on function pgbouncer.lookup(text) from public;

grant execute on function pgbouncer.lookup(text) to pgbouncer;

SQL
  ;;
esac
