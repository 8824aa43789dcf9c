"""Stands for a service: answers with the examples of its contract."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from contract import operations, serve

EXAMPLES = {each["path"]: (each["status"], each["example"]) for each in operations(os.environ["CONTRACT"])}


def answer_to(path):
    return EXAMPLES.get(path, (501, {"error": f"its contract has no example for {path}"}))


serve(answer_to, 8080)
