"""`docs/invariants.md` from the tests: which test provokes which rule.

python -m tests.support.invariants     writes the file; an architecture test compares
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "invariants.md"
NAMED = re.compile(r"(?<![Ss]ync )[Ii]nvariants?\s+(\d+(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)\d+)*)")

RULES = {
    1: "A step is healthy only when its container, probe or log line really did what it should",
    2: "Nothing is invented: no simulated figures, reports, authors or counts",
    3: "No run is Healthy with a hard-failed step, or terminal while a step is queued or running",
    4: "A terminal status never changes; nothing follows `end`",
    5: "Everything has a deadline that ends in a reason",
    6: "No attempt runs twice, no two attempts of a step live at once",
    7: "A stale attempt or foreign agent changes nothing: 409",
    8: "No job without the agent's credential; no agent route without the shared secret",
    9: "What is not idempotent does not run again after a lost worker unless asked",
    10: "A client that reconnects gets every record once, in order, or a `gap`",
    11: "An acknowledged log line is never lost; nothing completes with lines missing",
    12: "Streams are not cut by time-outs, end after `end`, and die with their credential",
    13: "A dependent starts only after its dependency, and fails within 1 s of it",
    14: "A finished run leaves no container, network or volume",
    15: "Nothing without our labels and installation is touched",
    16: "Nothing of another workspace shows anywhere; 404, not 403",
    17: "What is for administrators answers 403 to others",
    18: "A demoted, disabled or signed-out account acts 30 s longer at most",
    19: "A secret appears nowhere",
    20: "A mask is never stored, a stored secret never wiped by GET and PUT",
    21: "The control plane's environment cannot be read by suites, templates or settings",
    22: "No session or shared secret goes to a proxy target, registry or redirect host",
    23: "The server connects to no internal address its configuration does not allow",
    24: "Package content matches its digests; nothing is written outside; `latest` is not resolved",
    25: "A broken suite, profile or package is listed with its error",
    26: "Unknown keywords, keys and query parameters are refused",
    27: "No evaluation and no pattern hurts the serving process",
    28: "Equal inputs give equal topologies and equal answers",
    29: "No mock increment is lost; mock state never leaks",
    30: "No mock answer or artifact acts in the pages' origin",
    31: "No lost update between two PUTs; deleted seeds stay away; one default a suite",
    32: "One run for one idempotency key; its answer only for its principal",
    33: "Malformed input is 4xx or a named error, never 5xx",
    34: "`/readyz` tells the truth; nothing fails because an optional part is away",
    35: "No settings or profile file is half written, readable by others, or masked",
    36: "Public routes are exactly those listed",
    37: "One failing part does not block another's answer",
    38: "Memory does not grow with what is over",
    39: "A restart forgets no run, restarts no finished step, and keeps workspaces apart",
    40: "No null, zero date or nanoseconds in an answer",
}
LATER = {
    20: "platform settings cannot be written yet",
    22: "no proxies, registries or redirects yet",
    23: "the server opens no connection that a user names yet",
    24: "no registry packages yet",
    29: "no mocks yet",
    31: "no PUT routes yet",
    35: "no settings or profile file is written yet",
}


def tests_by_rule() -> dict[int, list[str]]:
    """Rule number → `path::test`, sorted; a module's docstring counts for the module."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, docstring in _docstrings(ast.parse(path.read_text())):
            for match in NAMED.finditer(docstring):
                for number in re.findall(r"\d+", match[1]):
                    place = str(path.relative_to(ROOT))
                    found[int(number)].add(f"{place}::{name}" if name else place)
    return {number: sorted(places) for number, places in found.items()}


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    yield "", ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""


def document() -> str:
    covered = tests_by_rule()
    lines = [
        "# What must never happen",
        "",
        "Forty rules, and the tests that provoke each. Written by",
        "`python -m tests.support.invariants` from the tests' docstrings.",
        "",
    ]
    for number, rule in RULES.items():
        lines += [f"## {number}. {rule}", ""]
        lines += [f"- `{place}`" for place in covered.get(number, [])]
        if number not in covered:
            lines += [f"Not covered: {LATER.get(number, 'no test yet')}."]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
