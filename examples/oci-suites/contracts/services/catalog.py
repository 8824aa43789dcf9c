"""The goods of the shop."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import serve

GOODS = [{"id": 1, "name": "tea", "priceId": "p-1"}, {"id": 2, "name": "cups", "priceId": "p-2"}]


def answer_to(path):
    if path == "/goods":
        return 200, GOODS
    found = [each for each in GOODS if path == f"/goods/{each['id']}"]
    return (200, found[0]) if found else (404, {"error": "not found"})


serve(answer_to, int(os.environ["PORT"]))
