"""The client of the storefront, which lists goods, against the stub of the catalog."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import get, report

status, goods = get("/goods")
listed = [f"{each['id']} {each['name']}" for each in goods]
report("storefront of catalog", [("goods are listed", None if listed == ["1 tea"] else f"it lists {listed}")])
