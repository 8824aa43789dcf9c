"""The service greets by name, and does not know other pages."""

import json
import os
from urllib.error import HTTPError
from urllib.request import urlopen

BASE = os.environ["BASE_URL"]

with urlopen(f"{BASE}/greet/Ada", timeout=10) as answer:
    text = json.load(answer)["text"]
wanted = f"{os.environ['GREETING']}, Ada!"
assert text == wanted, f"/greet/Ada: got {text!r}, wanted {wanted!r}"
print("greeted:", text)

try:
    urlopen(f"{BASE}/nothing", timeout=10)
except HTTPError as error:
    assert error.code == 404, f"/nothing: got {error.code}, wanted 404"
else:
    raise AssertionError("a page that does not exist was found")
print("unknown pages are refused")
