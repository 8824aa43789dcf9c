import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from shop import Store, work

store = Store()
work(3, "change undone")
store.call("DEL", "goods", "schema:version")
print("rolled back")
