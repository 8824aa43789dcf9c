import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from shop import Store, work

GOODS = {"apple": 30, "bread": 280, "cheese": 450, "dates": 390, "eggs": 320}

store = Store()
work(10, "batch written")
for name, cents in GOODS.items():
    store.call("HSET", "goods", name, cents)
if os.environ.get("BREAK") == "yes":
    store.call("HSET", "goods", "apple", "not a price")
    sys.exit("apple has no price: the data is broken (BREAK=yes)")
print(f"{len(GOODS)} goods for sale in {os.environ['CURRENCY']}")
