create schema notify;

-- One row a mail, made when its event comes in: an event that comes again finds it there.
create table notify.sent (
  order_id    uuid not null,
  event       text not null,
  customer    int  not null,
  status      text not null default 'queued' check (status in ('queued', 'sent', 'failed')),
  details     jsonb not null default '{}',
  attempts    int  not null default 0,
  next_at     timestamptz not null default now(),
  last_error  text,
  created_at  timestamptz not null default now(),
  sent_at     timestamptz,
  primary key (order_id, event)
);
create index sent_queued on notify.sent (next_at) where status = 'queued';

create table notify.partners (
  seller  int  primary key,
  url     text not null,
  secret  text not null
);

create table notify.hooks (
  order_id    uuid not null,
  event       text not null,
  seller      int  not null references notify.partners,
  status      text not null default 'queued' check (status in ('queued', 'sent', 'failed')),
  payload     jsonb not null,
  attempts    int  not null default 0,
  next_at     timestamptz not null default now(),
  last_error  text,
  created_at  timestamptz not null default now(),
  sent_at     timestamptz,
  primary key (order_id, event, seller)
);
create index hooks_queued on notify.hooks (next_at) where status = 'queued';
