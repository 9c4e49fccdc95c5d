create schema flags;

create table flags.flags (
  name         text primary key,
  value        jsonb not null,
  description  text not null default '',
  updated_at   timestamptz not null default now(),
  updated_by   text not null default 'migration'
);

insert into flags.flags (name, value, description) values
  ('checkout_enabled',  'true',  'The checkout takes orders. Off: answers 503 with Retry-After.'),
  ('returns_enabled',   'true',  'Customers may send orders back.'),
  ('seller_webhooks',   'true',  'Partners are told about orders by webhook.'),
  ('related_products',  'true',  'The product page shows related products.'),
  ('search_enabled',    'true',  'The search box is shown.'),
  ('home_banner',       '"Free delivery this week"', 'Text at the top of the home page.');
