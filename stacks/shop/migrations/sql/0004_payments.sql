create schema payments;

create table payments.charges (
  order_id       uuid primary key,
  id             uuid not null unique default gen_random_uuid(),
  customer       int  not null,
  amount         int  not null check (amount >= 0),   -- cents
  status         text not null default 'new'
    check (status in ('new', 'unknown', 'captured', 'declined', 'failed')),
  provider_id    text unique,
  attempts       int  not null default 0,
  claimed_until  timestamptz,                         -- one attempt at a time
  next_check_at  timestamptz,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now()
);
create index charges_open on payments.charges (next_check_at) where status in ('new', 'unknown');
create index charges_created on payments.charges (created_at);

create table payments.refunds (
  id             uuid primary key default gen_random_uuid(),
  order_id       uuid not null references payments.charges,
  key            text not null,
  amount         int  not null check (amount > 0),
  status         text not null default 'new' check (status in ('new', 'done', 'refused')),
  provider_id    text unique,
  attempts       int  not null default 0,
  claimed_until  timestamptz,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  unique (order_id, key)
);
create index refunds_open on payments.refunds (updated_at) where status = 'new';

-- Double entry: every booking (a charge's or a refund's id) sums to zero over its accounts.
create table payments.entries (
  booking     uuid not null,
  account     text not null,
  order_id    uuid not null,
  amount      int  not null,                          -- cents; debit positive, credit negative
  created_at  timestamptz not null default now(),
  primary key (booking, account)
);
create index entries_order on payments.entries (order_id);
create index entries_created on payments.entries (created_at);

create function payments.balanced() returns trigger language plpgsql as $$
begin
  if (select sum(amount) from payments.entries where booking = new.booking) <> 0 then
    raise exception 'booking % does not balance', new.booking;
  end if;
  return null;
end $$;
create constraint trigger entries_balanced after insert or update on payments.entries
  deferrable initially deferred for each row execute function payments.balanced();
