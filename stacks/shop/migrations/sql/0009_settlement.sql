create schema settlement;

create table settlement.runs (
  id           bigint generated always as identity primary key,
  started_at   timestamptz not null default now(),
  finished_at  timestamptz,
  resolved     int not null default 0,
  differences  int not null default 0
);

create table settlement.differences (
  run       bigint not null references settlement.runs on delete cascade,
  kind      text   not null,
  order_id  uuid   not null,
  detail    text   not null default '',
  primary key (run, kind, order_id)
);

create schema reports;

create table reports.sales (
  day       date not null,
  category  text not null,
  orders    int  not null,
  quantity  int  not null,
  revenue   bigint not null,                          -- cents
  made_at   timestamptz not null default now(),
  primary key (day, category)
);
