create schema catalog;

create table catalog.categories (
  slug   text primary key,
  title  text not null
);

create table catalog.sellers (
  id         int primary key,
  name       text not null,
  joined_at  timestamptz not null default now()
);

create table catalog.products (
  id           int primary key,
  name         text not null,
  price        int  not null check (price > 0),       -- cents
  category     text not null references catalog.categories,
  seller       int  not null references catalog.sellers,
  description  text not null default '',
  updated_at   timestamptz not null default now()
);
create index products_category on catalog.products (category, id);
