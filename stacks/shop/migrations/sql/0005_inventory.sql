create schema inventory;

create table inventory.stock (
  product     int primary key,
  on_hand     int not null check (on_hand >= 0),
  reserved    int not null default 0 check (reserved >= 0),
  updated_at  timestamptz not null default now(),
  constraint not_oversold check (reserved <= on_hand)
) with (fillfactor = 70);

create table inventory.reservations (
  order_id    uuid primary key,
  status      text not null check (status in ('held', 'committed', 'released')),
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now()
);
create index reservations_held on inventory.reservations (created_at) where status = 'held';

create table inventory.reservation_lines (
  order_id  uuid not null references inventory.reservations on delete cascade,
  product   int  not null,
  quantity  int  not null check (quantity > 0),
  primary key (order_id, product)
);

create table inventory.returns (
  order_id    uuid not null,
  product     int  not null,
  quantity    int  not null check (quantity > 0),
  created_at  timestamptz not null default now(),
  primary key (order_id, product)
);
