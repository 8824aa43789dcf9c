import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from shop import Store, work

store = Store()
attempt = int(os.environ["PARTITA_ATTEMPT"])
work(4, f"key warmed (attempt {attempt})")
if store.call("INCR", "cache:tries") == 1:
    sys.exit("the cache was cold: failing on purpose, a retry will find it warm")
store.call("SET", "cache:warm", "yes")
print("the cache is warm")
