"""`docs/invariants.md` and `docs/sync-invariants.md`: which test provokes which rule.

python -m tests.support.invariants     writes the files; an architecture test compares
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "invariants.md"
SYNC_DOCUMENT = ROOT / "docs" / "sync-invariants.md"
_NUMBERS = r"[Ii]nvariants?\s+(\d+(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)\d+)*)"
NAMED = re.compile(rf"(?<![Ss]ync ){_NUMBERS}")
NAMED_OF_SYNC = re.compile(rf"(?<=[Ss]ync ){_NUMBERS}")

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
    39: "A restart forgets no run, repeats no step whose services live, keeps workspaces apart",
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
SYNC_RULES = {
    1: "What was answered 202 is applied, whoever is killed and whatever the broker forgets",
    2: "202 is answered only once the task, or with the inbox the delivery, is on disk",
    3: "A delivery that was refused or left unanswered may come again",
    4: "Ten copies of a delivery at once are one task: one 202, nine 401",
    5: "An accepted body under another delivery id is refused while its record lasts",
    6: "The replay records of one segment do not concern another",
    7: "Whatever the order of events, a unit ends at its ref's head, and its generation only rises",
    8: "Values come from the commit that is recorded with them",
    9: "Tags are no branches; pull requests write to `pr-<n>` only, forks' only if allowed",
    10: "A worker that lost its task starts nothing more at a sink",
    11: "A destination has one writer at a time, whatever its datasource is called",
    12: "A webhook that got lost is made up for by the next reconcile",
    13: "What we did not write is not deleted",
    14: "A failed, partial or empty read deletes nothing; a guard that trips changes no byte",
    15: "Pruning one file leaves the keys of the unit's other files, and what was just written",
    16: "A rule that fails halfway gives back its changes and leaves those of others",
    17: "A sync killed between any two operations ends, on the next attempt, as the head wants it",
    18: "A file that does not parse, validate or get its secrets writes nothing",
    19: "Trouble with Git, sign-in or network is no missing file and no success",
    20: "Two keys do not become one unnoticed; no other environment's block is in the output",
    21: "Values keep their spelling",
    22: "Dry runs write and delete nothing",
    23: "No whole document, object or file without our marker is replaced, unless `adopt` says so",
    24: "A secret appears nowhere, in no encoding",
    25: "A forged delivery is not parsed, remembered or forwarded; proofs are compared evenly",
    26: "Production does not start without its secrets and certificates",
    27: "In production nobody unknown gets a webhook, a rule or a sync past a port",
    28: "Tenant, clone URL and destination come from the bundle; the token goes to its host alone",
    29: "No name leaves its destination, and git runs nothing of a repository's",
    30: "`partita.json` only makes things stricter, and only from the default branch",
    31: "A body that is too large is 413 however it is sent; memory for bodies is bounded",
    32: "Memory and metric labels are bounded, whatever strangers invent",
    33: "Answers of a living orchestrator and lost clients open no breaker; no permit is lost",
    34: "429 and 503 say when to come again; every error body has the one form",
    35: "A known task is answered, an unknown one is 404; ends are final; failure is no success",
    36: "What ended FAILED or DEAD is not executed again by itself, and nothing goes in circles",
    37: "A bundle that is refused changes nothing",
    38: "A sync is not drift; drift that was there at the first start is",
    39: "What was found live does not become the baseline, and a failed heal hides nothing",
    40: "Without self_heal drift is logged and counted, and not healed",
    41: "A heal stays in its unit and gives way to a newer sync",
    42: "Heals are bounded however persistent the other writer; two watchers heal an episode once",
    43: "A read that failed heals nothing and resets no pause",
}


def tests_by_rule(named: re.Pattern[str]) -> dict[int, list[str]]:
    """Rule number → `path::test`, sorted; a module's docstring counts for the module."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, docstring in _docstrings(ast.parse(path.read_text())):
            for match in named.finditer(docstring):
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
    head = [
        "# What must never happen",
        "",
        "Forty rules, and the tests that provoke each. Written by",
        "`python -m tests.support.invariants` from the tests' docstrings.",
        "",
    ]
    return _listed(head, RULES, tests_by_rule(NAMED), LATER)


def sync_document() -> str:
    head = [
        "# What must never happen to a configuration sync",
        "",
        "Forty-three rules, and the tests that provoke each. Written by",
        '`python -m tests.support.invariants` from the tests\' docstrings ("Sync invariant 7").',
        "",
    ]
    return _listed(head, SYNC_RULES, tests_by_rule(NAMED_OF_SYNC), {})


def _listed(
    lines: list[str],
    rules: Mapping[int, str],
    covered: Mapping[int, list[str]],
    later: Mapping[int, str],
) -> str:
    for number, rule in rules.items():
        lines += [f"## {number}. {rule}", ""]
        lines += [f"- `{place}`" for place in covered.get(number, [])]
        if number not in covered:
            lines += [f"Not covered: {later.get(number, 'no test yet')}."]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    SYNC_DOCUMENT.write_text(sync_document())
