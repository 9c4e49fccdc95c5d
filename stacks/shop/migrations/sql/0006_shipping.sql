create schema shipping;

create table shipping.shipments (
  order_id      uuid primary key,
  customer      int  not null,
  status        text not null default 'preparing' check (status in ('preparing', 'shipped')),
  carrier       text not null,
  tracking      text not null unique,
  created_at    timestamptz not null default now(),
  ship_at       timestamptz not null,
  shipped_at    timestamptz,
  announced_at  timestamptz                           -- when shipments.created was published
);
create index shipments_due on shipping.shipments (ship_at) where status = 'preparing';
create index shipments_unannounced on shipping.shipments (shipped_at)
  where status = 'shipped' and announced_at is null;
