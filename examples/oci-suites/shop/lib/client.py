"""An HTTP client for the shop's API: `call(path, body)` answers (status, JSON)."""

import json
import os
import urllib.error
import urllib.request


def call(path, body=None):
    request = urllib.request.Request(os.environ["API_URL"] + path, data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)

