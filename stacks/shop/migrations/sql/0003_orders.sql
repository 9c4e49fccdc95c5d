create schema orders;

-- The id is made by the client: it is the Idempotency-Key of the checkout.
create table orders.orders (
  id          uuid primary key,
  customer    int  not null,
  status      text not null default 'new'
    check (status in ('new', 'pending', 'paid', 'declined', 'cancelled', 'returning', 'returned')),
  amount      int  not null check (amount >= 0),      -- cents, as charged
  address     text not null default '',
  channel     text not null default 'web',
  stock       text not null default 'none'
    check (stock in ('none', 'held', 'committed', 'released')),
  reason      text,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  paid_at     timestamptz
);
create index orders_customer_created on orders.orders (customer, created_at desc);
create index orders_created on orders.orders (created_at);
create index orders_open on orders.orders (updated_at)
  where status in ('new', 'pending', 'returning') or stock = 'held';

create table orders.lines (
  order_id  uuid     not null references orders.orders on delete cascade,
  line      smallint not null,
  product   int      not null,
  seller    int      not null,
  quantity  int      not null check (quantity > 0),
  price     int      not null check (price > 0),      -- cents apiece
  primary key (order_id, line)
);
create index lines_seller on orders.lines (seller, order_id);

-- The same key with another body is a mistake of the client's.
create table orders.idempotency (
  key          uuid primary key,
  customer     int  not null,
  fingerprint  text not null,
  created_at   timestamptz not null default now()
);
create index idempotency_created on orders.idempotency (created_at);

-- Events are written with the change that they tell of and published afterwards.
create table orders.outbox (
  id            bigint generated always as identity primary key,
  order_id      uuid  not null,
  subject       text  not null,
  payload       jsonb not null,
  created_at    timestamptz not null default now(),
  published_at  timestamptz,
  unique (order_id, subject)
);
create index outbox_waiting on orders.outbox (id) where published_at is null;

-- Access of sellers' own systems; only hashes of the keys are kept.
create table orders.seller_keys (
  key_hash    text primary key,                       -- sha256, hex
  seller      int  not null,
  created_at  timestamptz not null default now()
);
