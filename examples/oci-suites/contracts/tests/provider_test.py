"""A service keeps its contract: every operation answers with the status and shape of its example."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import differences, get, operations, report

name = os.environ["CONTRACT"]
results = []
for each in operations(name):
    status, body = get(each["path"])
    wrong = [] if status == each["status"] else [f"status must be {each['status']}, not {status}"]
    wrong += differences(each["schema"], body)
    results.append((f"GET {each['path']} {each['status']}", "; ".join(wrong) or None))
report(f"provider {name}", results)
