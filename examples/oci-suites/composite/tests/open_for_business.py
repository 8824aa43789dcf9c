"""The shop, which is another suite, answers under its name in the network of the run."""

import os
import urllib.request

url = os.environ["API_URL"] + "/health"
with urllib.request.urlopen(url, timeout=10) as answer:
    print("the shop says:", answer.read().decode())
