"""The worker: takes the ids of orders from the queue and marks the orders as shipped."""

import os

import psycopg2
import redis

queue = redis.Redis.from_url(os.environ["REDIS_URL"])
connection = psycopg2.connect(os.environ["DATABASE_URL"])
connection.autocommit = True
print("waiting for orders", flush=True)
while True:
    _, number = queue.blpop("orders")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE orders SET state = 'shipped' WHERE id = %s", (int(number),))
    print("shipped order", int(number), flush=True)
