"""The prices of the goods. With PRICES_AS=text, the cents are a string, which breaks its contract."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import serve

CENTS = {"p-1": 450, "p-2": 1200}


def answer_to(path):
    number = path.removeprefix("/prices/")
    if number not in CENTS:
        return 404, {"error": "not found"}
    cents = CENTS[number]
    return 200, {"id": number, "cents": str(cents) if os.environ.get("PRICES_AS") == "text" else cents, "currency": "EUR"}


serve(answer_to, int(os.environ["PORT"]))
