"""The payment provider: `capture(order, cents)` takes the money and answers (status, payment)."""

import json
import os
import urllib.error
import urllib.request

ADDRESS = os.environ.get("PARTITA_MOCK_PAYMENTS_URL")  # without one, people pay cash


def capture(order, cents):
    body = json.dumps({"order": order, "cents": cents, "currency": os.environ["CURRENCY"]}).encode()
    request = urllib.request.Request(f"{ADDRESS}/Capture", data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
