import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from shop import Store, work

store = Store()
work(8, "migration applied")
store.call("SET", "schema:version", 8)
print("schema version 8")
