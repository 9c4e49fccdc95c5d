-- The shop's past: 200 products, 60,000 orders of the last 90 days, 41 migrations.
set role migrator;

insert into products
select i,
       (array['Oak','Linen','Copper','Wool','Clay','Glass','Ash','Slate','Cork','Brass'])[1 + i % 10] || ' ' ||
       (array['lamp','bowl','throw','frame','vase','stool','tray','hook','jar','clock','shelf','mug','basket','mirror','candle','rug','board','pot','cushion','kettle'])[1 + (i / 10) % 20],
       290 + (i * 7919) % 17700
from generate_series(1, 200) i;

insert into orders (id, customer, product, quantity, amount, status, created_at, processed_at)
select md5('order ' || i)::uuid,
       1 + (i * 7907) % 500,
       p.id,
       1 + i % 3,
       p.price * (1 + i % 3),
       'done',
       at,
       at + (i % 7 + 1) * interval '160 ms'
from generate_series(1, 60000) i
join products p on p.id = 1 + (i * 6101) % 200
cross join lateral (select now() - (60001 - i) * interval '129.3 s' - (i * 31 % 97) * interval '1 s' as at) t;

insert into schema_migrations
select to_char(i, 'FM0000'), now() - (42 - i) * interval '9 days' - interval '3 hours'
from generate_series(1, 41) i;

reset role;
analyze;
checkpoint;
