-- The schema as of migration 0041.
set role migrator;

create table schema_migrations (
  version    text primary key,
  applied_at timestamptz not null default now()
);

create table products (
  id    int primary key,
  name  text not null,
  price int  not null check (price > 0)       -- cents
);

create table orders (
  id           uuid primary key,
  customer     int  not null,
  product      int  not null references products,
  quantity     int  not null check (quantity > 0),
  amount       int  not null,                  -- cents, as charged
  status       text not null default 'new',    -- new, done
  created_at   timestamptz not null default now(),
  processed_at timestamptz
);
create index orders_customer_created on orders (customer, created_at desc);
create index orders_created on orders (created_at);
create index orders_waiting on orders (created_at) where status = 'new';

grant select on schema_migrations to app;
grant select on products to app, worker, reports, oncall;
grant select, insert on orders to app;
grant select, update (status, processed_at) on orders to worker;
grant select on orders to reports, oncall;
