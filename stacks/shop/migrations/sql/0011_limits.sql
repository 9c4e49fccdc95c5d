-- A statement that a user waits for is not worth more than ten seconds; nobody sleeps in a transaction.
alter role catalog   set statement_timeout = '10s';
alter role accounts  set statement_timeout = '10s';
alter role orders    set statement_timeout = '10s';
alter role payments  set statement_timeout = '10s';
alter role inventory set statement_timeout = '10s';
alter role shipping  set statement_timeout = '10s';
alter role notify    set statement_timeout = '10s';
alter role flags     set statement_timeout = '10s';
alter role orders    set idle_in_transaction_session_timeout = '15s';
alter role payments  set idle_in_transaction_session_timeout = '15s';
alter role inventory set idle_in_transaction_session_timeout = '15s';
alter role reports   set statement_timeout = '10min';
