import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.parse import parse_qs, urlsplit

import provider
from shop import Store

REQUESTS = count(1)


def goods():
    flat = Store().call("HGETALL", "goods")
    return {name: int(cents) for name, cents in zip(flat[::2], flat[1::2])}


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == "/health":
            return self.answer(200, {"schema": int(Store().call("GET", "schema:version"))})
        if url.path == "/goods":
            wanted = query.get("q", [""])[0]
            return self.answer(200, {name: cents for name, cents in goods().items() if wanted in name})
        return self.answer(404, {"error": f"no page {url.path}"})

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prices = goods()
        unknown = sorted(set(order) - set(prices))
        if unknown:
            return self.answer(409, {"error": f"not for sale: {', '.join(unknown)}"})
        total = sum(prices[name] * amount for name, amount in order.items())
        number = Store().call("INCR", "orders")
        if provider.ADDRESS:
            status, payment = provider.capture(number, total)
            if status != 200:
                return self.answer(402, {"error": f"order {number} is not paid: {payment}"})
        return self.answer(201, {"order": number, "total": total, "currency": os.environ["CURRENCY"]})

    def answer(self, status, body):
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, form, *values):
        if self.path != "/health":
            print(f"request {next(REQUESTS)}: {form % values}", flush=True)


print("the shop opens on port 8080", flush=True)
ThreadingHTTPServer(("0.0.0.0", 8080), Shop).serve_forever()
