-- Logins of the shop's database. Their passwords are the ones of the Secret database-logins.
create role app        login password 'q7V-copper-meadow';
create role worker     login password 'm2K-silent-anvil';
create role reports    login password 'x4T-paper-orchard';
create role migrator   login password 'd8N-granite-ferry';
create role monitoring login password 'h5R-amber-gauge' superuser;
create role oncall     login password 'w6Y-night-beacon' in role pg_monitor, pg_signal_backend;
create database shop owner migrator;
grant connect on database shop to app, worker, reports, monitoring, oncall;
