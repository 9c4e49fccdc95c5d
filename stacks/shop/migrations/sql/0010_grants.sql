-- Each service reads and writes its own schema; what it may see of another's is named here, one by one.
grant usage on schema public to public;
grant select on public.schema_migrations to public;

grant usage on schema catalog to catalog, backoffice, reports, settlement;
grant select on all tables in schema catalog to catalog, backoffice, reports, settlement;
grant insert, update on catalog.products to catalog;
grant update (price, updated_at) on catalog.products to backoffice;

grant usage on schema accounts to accounts, notify, backoffice;
grant select, insert, update on accounts.customers to accounts;
grant select on accounts.contacts to notify, backoffice;

grant usage on schema orders to orders, backoffice, settlement, reports;
grant select, insert, update on all tables in schema orders to orders;
grant select on orders.orders, orders.lines to backoffice, settlement, reports;
grant select, delete on orders.idempotency, orders.outbox to settlement;

grant usage on schema payments to payments, backoffice, settlement;
grant select, insert, update on payments.charges, payments.refunds to payments;
grant select, insert on payments.entries to payments;
grant select on all tables in schema payments to backoffice, settlement;

grant usage on schema inventory to inventory, backoffice, settlement;
grant select, insert, update on all tables in schema inventory to inventory;
grant select on all tables in schema inventory to backoffice, settlement;
grant delete on inventory.reservations to settlement;

grant usage on schema shipping to shipping, backoffice, settlement;
grant select, insert, update on shipping.shipments to shipping;
grant select on shipping.shipments to backoffice, settlement;

grant usage on schema notify to notify, settlement;
grant select, insert, update on notify.sent, notify.hooks to notify;
grant select on notify.partners to notify;
grant select, delete on notify.sent, notify.hooks to settlement;

grant usage on schema flags to flags, backoffice;
grant select, insert, update, delete on flags.flags to flags;
grant select on flags.flags to backoffice;

grant usage on schema settlement to settlement, backoffice;
grant select, insert, update, delete on all tables in schema settlement to settlement;
grant select on all tables in schema settlement to backoffice;

grant usage on schema reports to reports, backoffice;
grant select, insert, update, delete on reports.sales to reports;
grant select on reports.sales to backoffice;
