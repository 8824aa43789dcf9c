"""The contracts themselves: can be read, and each example has the shape that it promises."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import differences, operations

wrong = []
for name in os.environ["CONTRACTS"].split(","):
    for each in operations(name):
        where = f"api/{name}.json GET {each['path']} {each['status']}"
        wrong += [f"{where}: {difference}" for difference in differences(each["schema"], each["example"])]
        print("read", where)
sys.exit("\n".join(wrong) or 0)
