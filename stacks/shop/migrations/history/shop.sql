-- The shop's past: its catalogue, and about 30,000 orders of the last 90 days with all that belongs to them.
-- Run once by the database's superuser, after the migrations and customers.sql. Same figures every time.
\set ON_ERROR_STOP on
begin;
set local session_replication_role = replica;
set local synchronous_commit = off;
set local work_mem = '64MB';
set local jit = off;
select setseed(0.42) \g /dev/null

insert into catalog.categories (slug, title)
select lower(replace(title, ' ', '-')), title
from unnest(array['Lamps','Bowls','Vases','Stools','Trays','Hooks','Jars','Clocks','Shelves','Mugs','Baskets','Mirrors',
  'Candles','Rugs','Boards','Pots','Cushions','Kettles','Blankets','Chairs','Benches','Tables','Desks','Frames','Knives',
  'Plates','Glasses','Carafes','Teapots','Towels','Curtains','Planters','Doormats','Brushes','Boxes','Coasters','Bookends',
  'Lanterns','Hampers','Bells']) title;

insert into catalog.sellers (id, name, joined_at)
select i, (array['Harbour','Meadow','Copper','Northern','Old Mill','River','Juniper','Lantern','Quarry','Orchard'])[1 + i % 10]
       || ' ' || (array['Workshop','Trading','& Daughters','Makers','Goods','Studio'])[1 + (i / 10) % 6],
       now() - interval '400 days' - i * interval '11 days'
from generate_series(1, 60) i;

insert into catalog.products (id, name, price, category, seller, description, updated_at)
select i,
       style || ' ' || lower(material) || ' ' || noun,
       390 + (i * 7919 + i / 40 * 1301) % 14900,
       lower(replace(title, ' ', '-')),
       1 + (i * 37 + i / 40) % 60,
       initcap(noun) || ' of ' || lower(material) || ', made by hand in small series. Size and colour vary a little.',
       now() - interval '90 days' - (i % 200) * interval '1 day'
from generate_series(1, 2000) i
cross join lateral (select
  (array['Plain','Tall','Round','Small','Large','Folding','Painted','Carved','Woven','Striped'])[1 + (i / 40) % 10] style,
  (array['Oak','Linen','Copper','Clay','Glass'])[1 + (i / 400) % 5] material,
  (array['Lamps','Bowls','Vases','Stools','Trays','Hooks','Jars','Clocks','Shelves','Mugs','Baskets','Mirrors',
  'Candles','Rugs','Boards','Pots','Cushions','Kettles','Blankets','Chairs','Benches','Tables','Desks','Frames','Knives',
  'Plates','Glasses','Carafes','Teapots','Towels','Curtains','Planters','Doormats','Brushes','Boxes','Coasters','Bookends',
  'Lanterns','Hampers','Bells'])[1 + i % 40] title,
  (array['lamp','bowl','vase','stool','tray','hook','jar','clock','shelf','mug','basket','mirror',
  'candle','rug','board','pot','cushion','kettle','blanket','chair','bench','table','desk','frame','knife',
  'plate','glass','carafe','teapot','towel','curtain','planter','doormat','brush','box','coaster','bookend',
  'lantern','hamper','bell'])[1 + i % 40] noun) words;

-- What is on the shelf today; the best sellers have more.
insert into inventory.stock (product, on_hand, updated_at)
select i, case when i <= 100 then 20000 else 800 + (i * 733) % 4200 end, now() - (i % 90) * interval '1 day'
from generate_series(1, 2000) i;

-- Orders: most in the early evening (UTC), fewest before dawn. Some customers and products are busier than others.
create temp table past on commit drop as
select overlay(overlay(md5('order ' || i) placing '4' from 13) placing 'a' from 17)::uuid id,
       1 + floor(5000 * power(random(), 1.5))::int customer,
       least(1 + floor(3 * power(random(), 2))::int, 3) lines,
       case when r < 0.02 then 'declined' when r < 0.03 then 'cancelled'
            when r < 0.06 and placed < now() - interval '1 day' then 'returned' else 'paid' end status,
       (array['web','web','web','app','app','phone'])[1 + floor(random() * 6)::int] channel,
       1 + floor(random() * 180)::int house,
       placed,
       placed + (0.12 + random() * 0.3) * interval '1 second' paid
from generate_series(1, 30050) i
cross join lateral (select random() r, now() - interval '90 days' + i * interval '259.2 seconds' even) dice
cross join lateral (select even - 0.12 * sin(2 * pi() * ((extract(epoch from even)::numeric % 86400) / 86400 - 0.75)::float8)
                         * interval '1 day' placed) times
where placed < now() - interval '30 seconds';
create index on past (id);

insert into orders.lines (order_id, line, product, seller, quantity, price)
select distinct on (past.id, p.id) past.id, n, p.id, p.seller, 1 + floor(2.4 * power(random(), 3))::int, p.price
from past
cross join lateral generate_series(1, past.lines) n
cross join lateral (select 1 + floor(2000 * power(random() * (n + past.lines) / (n + past.lines), 2))::int pick) choice
join catalog.products p on p.id = choice.pick
order by past.id, p.id;

create temp table sums on commit drop as
select order_id, sum(quantity * price)::int amount from orders.lines group by order_id;
create index on sums (order_id);
analyze past; analyze sums;

insert into orders.orders (id, customer, status, amount, address, channel, stock, reason, created_at, updated_at, paid_at)
select id, customer, status, amount,
       house || ' ' || (array['Mill Lane','Station Road','High Street','Quay Street','Church Walk'])[1 + house % 5] || ', '
       || (array['Ashford','Brightwater','Caldermoor','Dunmere','Eastholm'])[1 + customer % 5],
       channel,
       case when status in ('declined', 'cancelled') then 'released' else 'committed' end,
       case status when 'declined' then 'payment declined' when 'cancelled' then 'out of stock' end,
       placed,
       case when status = 'returned' then least(paid + interval '5 days', now() - interval '1 hour') else paid end,
       case when status in ('paid', 'returned') then paid end
from past join sums on sums.order_id = past.id
order by placed;

insert into orders.idempotency (key, customer, fingerprint, created_at)
select id, customer, encode(sha256(id::text::bytea), 'hex'), placed from past where placed > now() - interval '7 days' order by placed;

insert into orders.outbox (order_id, subject, payload, created_at, published_at)
select past.id, 'orders.paid',
       jsonb_build_object('order', past.id, 'customer', customer, 'amount', amount, 'lines', items), paid,
       paid + interval '90 ms'
from past join sums on sums.order_id = past.id
cross join lateral (select jsonb_agg(jsonb_build_object('product', product, 'seller', seller, 'quantity', quantity,
                                                        'price', price) order by line) items
                    from orders.lines where lines.order_id = past.id) l
where placed > now() - interval '7 days' and status in ('paid', 'returned')
order by placed;

insert into payments.charges (order_id, id, customer, amount, status, provider_id, attempts, created_at, updated_at)
select past.id, overlay(overlay(md5('charge ' || past.id) placing '4' from 13) placing '9' from 17)::uuid, customer, amount,
       case when status = 'declined' then 'declined' else 'captured' end,
       case when status <> 'declined' then 'ch_' || left(md5('provider ' || past.id), 20) end, 1, placed, paid
from past join sums on sums.order_id = past.id
where status <> 'cancelled'
order by placed;

insert into payments.entries (booking, account, order_id, amount, created_at)
select id, account, order_id, case account when 'provider-receivable' then amount else -amount end, updated_at
from payments.charges
cross join unnest(array['provider-receivable', 'sales']) account
where status = 'captured'
order by updated_at;

insert into payments.refunds (id, order_id, key, amount, status, provider_id, attempts, created_at, updated_at)
select overlay(overlay(md5('refund ' || id) placing '4' from 13) placing '8' from 17)::uuid, id, 'return', amount, 'done',
       're_' || left(md5('provider refund ' || id), 20), 1, updated_at, updated_at
from orders.orders where status = 'returned';

insert into payments.entries (booking, account, order_id, amount, created_at)
select id, account, order_id, case account when 'provider-receivable' then -amount else amount end, created_at
from payments.refunds
cross join unnest(array['provider-receivable', 'sales']) account;

-- Reservations and mails are kept for 30 days.
insert into inventory.reservations (order_id, status, created_at, updated_at)
select id, case when status in ('declined', 'cancelled') then 'released' else 'committed' end, placed, paid
from past where placed > now() - interval '30 days' order by placed;

insert into inventory.reservation_lines (order_id, product, quantity)
select order_id, product, quantity from orders.lines join past on past.id = order_id
where placed > now() - interval '30 days';

insert into inventory.returns (order_id, product, quantity, created_at)
select o.id, l.product, l.quantity, o.updated_at
from orders.orders o join orders.lines l on l.order_id = o.id where o.status = 'returned';

insert into shipping.shipments (order_id, customer, status, carrier, tracking, created_at, ship_at, shipped_at, announced_at)
select id, customer, 'shipped', (array['Northpost','Swiftparcel','Harbour Express'])[1 + customer % 3],
       'MK' || upper(left(md5('parcel ' || id), 12)), paid, paid + interval '10 seconds',
       paid + interval '11 seconds', paid + interval '11.1 seconds'
from past where status in ('paid', 'returned')
order by placed;

insert into notify.sent (order_id, event, customer, status, details, attempts, next_at, created_at, sent_at)
select past.id, event, customer, 'sent', jsonb_build_object('amount', amount), 1, placed + late, placed + late, placed + late + interval '60 ms'
from past join sums on sums.order_id = past.id
cross join (values ('orders.paid', interval '0.5 s'), ('shipments.created', interval '11.6 s')) events (event, late)
where placed > now() - interval '30 days' and status in ('paid', 'returned')
union all
select id, 'orders.returned', customer, 'sent', jsonb_build_object('amount', amount), 1, updated_at, updated_at,
       updated_at + interval '70 ms'
from orders.orders where status = 'returned' and updated_at > now() - interval '30 days';

-- Sellers' own systems: a key for each, a webhook for those who asked for one.
insert into orders.seller_keys (key_hash, seller, created_at)
select encode(sha256(('mk_live_' || left(encode(sha256(('seller-' || i)::bytea), 'hex'), 24))::bytea), 'hex'), i,
       now() - interval '200 days'
from generate_series(1, 60) i;

insert into notify.partners (seller, url, secret)
select i, 'http://partner-hooks.shop/sellers/' || i || '/orders', 'whsec_' || left(md5('partner ' || i), 24)
from generate_series(1, 12) i;

insert into reports.sales (day, category, orders, quantity, revenue, made_at)
select o.paid_at::date, p.category, count(distinct o.id), sum(l.quantity), sum(l.quantity * l.price), o.paid_at::date + interval '1 day'
from orders.orders o join orders.lines l on l.order_id = o.id join catalog.products p on p.id = l.product
where o.status = 'paid' and o.paid_at < current_date
group by o.paid_at::date, p.category;

-- The schema grew over two years, not today.
update public.schema_migrations set applied_at = now() - interval '95 days' - (12 - version::int) * interval '57 days';
update flags.flags set updated_at = now() - interval '40 days';
commit;
analyze;
