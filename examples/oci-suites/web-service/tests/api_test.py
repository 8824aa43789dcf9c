"""An order of the API is shipped by the worker."""

import json
import os
import time
from urllib.request import Request, urlopen

ORDERS = os.environ["BASE_URL"] + "/api/orders"

body = json.dumps({"item": "tea"}).encode()
with urlopen(Request(ORDERS, body, {"Content-Type": "application/json"}), timeout=10) as answer:
    assert answer.status == 201
    number = json.load(answer)["id"]
print("ordered", number)

until = time.monotonic() + 20
while True:
    with urlopen(ORDERS, timeout=10) as answer:
        state = {each["id"]: each["state"] for each in json.load(answer)}[number]
    if state == "shipped":
        break
    assert time.monotonic() < until, f"the order is still {state}"
    time.sleep(0.1)
print("shipped", number)
