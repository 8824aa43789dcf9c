create table if not exists carts (id text primary key, total numeric not null);
