"""The goods of a shop: GET /goods."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWERS = {
    "/health": {"status": "ok"},
    "/goods": [{"id": 1, "name": "tea"}, {"id": 2, "name": "cups"}],
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        data = json.dumps(ANSWERS.get(self.path, {"error": "not found"})).encode()
        self.send_response(200 if self.path in ANSWERS else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


ThreadingHTTPServer(("", 8080), Handler).serve_forever()
