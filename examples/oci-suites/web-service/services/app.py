"""The service: a page with a form, and an API. An order goes to PostgreSQL and, by its id, to the queue."""

import html
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2
import redis

queue = redis.Redis.from_url(os.environ["REDIS_URL"])

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Orders</title></head>
<body><main><h1>Orders</h1>
<form method="post" action="/orders"><label for="item">Item</label> <input id="item" name="item" required>
<button>Order</button></form>
<ul>%s</ul></main></body></html>"""


def rows(statement, *values):
    with psycopg2.connect(os.environ["DATABASE_URL"]) as connection, connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def order(item):
    ((number,),) = rows("INSERT INTO orders (item) VALUES (%s) RETURNING id", item)
    queue.rpush("orders", number)
    return number


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body, kind="application/json", **headers):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/health":
            rows("SELECT 1")
            queue.ping()
            return self.answer(200, '{"status": "ok"}')
        found = rows("SELECT id, item, state FROM orders ORDER BY id")
        if self.path == "/api/orders":
            return self.answer(200, json.dumps([dict(zip(("id", "item", "state"), row)) for row in found]))
        if self.path == "/":
            items = "".join(f"<li>{html.escape(item)}: {state}</li>" for _, item, state in found)
            return self.answer(200, PAGE % items, "text/html")
        return self.answer(404, '{"error": "not found"}')

    def do_POST(self):
        from urllib.parse import parse_qs

        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/api/orders":
            return self.answer(201, json.dumps({"id": order(json.loads(text)["item"])}))
        if self.path == "/orders":
            order(parse_qs(text)["item"][0])
            return self.answer(303, "", Location="/")
        return self.answer(404, '{"error": "not found"}')

    def log_message(self, words, *values):
        print(words % values, flush=True)


ThreadingHTTPServer(("", 8080), Handler).serve_forever()
