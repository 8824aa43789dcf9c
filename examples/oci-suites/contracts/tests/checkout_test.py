"""The client of the checkout, which needs names and prices, against the stub of a service."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import get, report


def shown_price(number):
    status, price = get(f"/prices/{number}")
    assert status == 200
    return f"{price['cents'] / 100:.2f} {price['currency']}"


def shown_name(number):
    status, good = get(f"/goods/{number}")
    return good["name"] if status == 200 else "sold out"


CHECKS = {
    "prices": [("a price is shown in euros", lambda: shown_price("p-1") == "4.50 EUR")],
    "catalog": [
        ("a good has a name", lambda: shown_name(1) == "tea"),
        ("a good that is gone is sold out", lambda: shown_name(999) == "sold out"),
    ],
}


def outcome(check):
    try:
        return None if check() else "another answer"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


name = os.environ["CONTRACT"]
report(f"checkout of {name}", [(said, outcome(check)) for said, check in CHECKS[name]])
