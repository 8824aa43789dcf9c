"""Each operation of 25 public contracts, called with what suits its schemas and with what does not.

python -m tests.faults.public_contracts --document stripe --show

Every document is served by `mock serve --validate enforce`. A library says of the calls whether
they suit the document, and of the answers whether they do.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from jsonschema import ValidationError

from bench.report import end_in_order, publish
from tests.faults.contract_calls import Call, Calls, Draft
from tests.faults.contract_documents import CallContract, Operation, plain
from tests.faults.prism_servers import MAX_TEXT, Answer, Target, mock_serve
from tests.support.public_documents import NAMES, PublicContract, public_contract

SEED: Final = 26
WRONG_CALLS: Final = 3  # of an operation
COLUMNS: Final = (
    *("document", "operations", "valid calls", "valid answers", "no valid call"),
    *("invalid calls", "refused", "naming the pointer", "server errors", "seconds"),
)
COUNTED: Final = ("operations", "valid", "right", "none", "invalid", "refused", "named", "errors")


def main() -> int:
    end_in_order()
    parser = argparse.ArgumentParser(prog="python -m tests.faults.public_contracts")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--document", action="append", choices=NAMES, help="repeatable; else all")
    parser.add_argument("--show", action="store_true", help="print each call that ends wrong")
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    whole, rows = Counter[str](), []
    for name in options.document or NAMES:
        begun = time.monotonic()
        found = judge_document(public_contract(name), options.seed, is_shown=options.show)
        rows.append([name, *(found[key] for key in COUNTED), round(time.monotonic() - begun, 1)])
        print(rows[-1], flush=True)
        whole += found
    if not options.publish or options.document:
        sys.argv.append("--quick")
    wrong = whole["valid"] - whole["right"] + whole["invalid"] - whole["named"]
    publish(
        "public-contracts",
        "Each operation of public contracts, as npm's packages have them, called with one call "
        "that suits its schemas and with up to three that break one rule each, at `mock serve "
        "--validate enforce`. Right: the valid call gets an answer that suits the document, the "
        "invalid one a 4xx whose `errors` name the part that is wrong.",
        COLUMNS,
        [*rows, ["all", *(whole[key] for key in COUNTED), ""]],
        f"Seed {options.seed}: {wrong} calls ended otherwise, {whole['errors']} in server errors.",
        command=f".venv/bin/python -m tests.faults.public_contracts --seed {options.seed}",
    )
    return 1 if wrong or whole["errors"] else 0


def judge_document(contract: PublicContract, seed: int, *, is_shown: bool) -> Counter[str]:
    """Serve a document and call each operation; return how often what happened."""
    counts = Counter[str]()
    document = CallContract(contract.document)
    with tempfile.TemporaryDirectory(prefix="partita-public-") as scratch:
        folder = Path(scratch, "public")
        folder.mkdir()
        (folder / "openapi.json").write_bytes(contract.text)
        words = ["--validate", "enforce"]
        with mock_serve(folder, words, Path(scratch, "log")) as facts:
            target = Target(facts["surfaces"][0]["url"])
            shapes = set()
            for operation in document.operations:
                counts["operations"] += 1
                shape = operation.method, re.sub(r"{[^{}]*}", "{}", operation.path)
                if shape in shapes or "#" in operation.path:  # no call can mean this one
                    counts["none"] += 1
                    continue
                shapes.add(shape)
                calls = Calls(document, operation, f"{seed} {contract.name}")
                for call, answer, said in _judged(contract, operation, calls, target, counts):
                    if is_shown:
                        line = f"{said}: {contract.name} [{call.rule} {call.pointer}] "
                        print(f"{line}{call.text[:400]!r} → {answer.status} {answer.text[:300]!r}")
    return counts


def _judged(
    contract: PublicContract, operation: Operation, calls: Calls, target: Target,
    counts: Counter[str],
) -> Iterator[tuple[Call, Answer, str]]:  # fmt: skip
    """Call one operation; yield what ended otherwise than it should."""
    draft = calls.valid(is_lean=True)
    valid = draft.call("valid")
    if not _is_valid(contract, draft) or (draft.media_type and not valid.body):
        counts["none"] += 1
        return
    answer = target.ask(valid)
    counts["valid"] += 1
    counts["errors"] += _is_server_error(operation, answer)
    said = _fault(contract, operation, answer)
    counts["right"] += not said
    if said:
        yield valid, answer, said
    wrong = [each for each in calls.wrong(calls.valid()) if _is_wrong(contract, each)]
    random.Random(valid.text).shuffle(wrong)
    for call in wrong[:WRONG_CALLS]:
        answer = target.ask(call)
        counts["invalid"] += 1
        counts["errors"] += _is_server_error(operation, answer)
        is_refused = 400 <= answer.status < 500
        is_named = is_refused and _names(answer, call)
        counts["refused"] += is_refused
        counts["named"] += is_named
        if not is_named:
            yield call, answer, "not named" if is_refused else "not refused"


def _is_server_error(operation: Operation, answer: Answer) -> bool:
    """Whether no answer came, or a failure that the document does not declare."""
    is_failure = answer.status >= 500 and str(answer.status) not in operation.statuses
    return is_failure or not answer.status


def _is_valid(contract: PublicContract, draft: Draft) -> bool:
    parts = [
        (getattr(draft, each.place)[each.name], each.schema)
        for each in draft.operation.parameters
        if each.name in getattr(draft, each.place)
    ]
    if draft.media_type:
        parts.append((draft.body, draft.operation.bodies[draft.media_type]))
    has_body = bool(draft.media_type) or not draft.operation.is_body_required
    return has_body and all(contract.suits_request(value, schema) for value, schema in parts)


def _is_wrong(contract: PublicContract, call: Call) -> bool:
    if not call.body and call.pointer.startswith("/body/"):
        return False  # a form without fields is no body
    if call.schema is None:
        return True
    is_text = not call.pointer.startswith("/body") and not isinstance(call.part, dict | list)
    values = [call.part, plain(call.part)] if is_text else [call.part]
    return not any(contract.suits_request(each, call.schema) for each in values)


def _fault(contract: PublicContract, operation: Operation, answer: Answer) -> str:
    """Return what is wrong with the answer to a valid call, or ""."""
    if answer.status >= 400 or not answer.status:
        declared = [each for each in operation.statuses if each[0] in "23d"]
        return "refused" if declared or _is_server_error(operation, answer) else ""
    if not answer.has_body or len(answer.text) >= MAX_TEXT or contract.is_swagger:
        return ""  # whole bodies are judged by tests/integration/test_public_contracts.py
    status = str(answer.status)
    media = contract.media(operation.method, operation.path, status, answer.media_type)
    if not media:
        return ""
    value = json.loads(answer.text)
    error = next(contract.errors(value, f"{media}/schema"), None)
    if error is None or contract.is_declared(value, media) or _is_of_the_document(error):
        return ""
    return f"the answer does not suit: {error.message[:200]}"


def _is_of_the_document(error: ValidationError) -> bool:
    """Whether an example of a part is what does not suit, or is missing a member."""
    schema: Any = error.schema
    owns = [schema.get("example"), schema.get("default"), *schema.get("examples", ())]
    return error.instance in owns or any(map(_is_of_the_document, error.context or ()))


def _names(answer: Answer, call: Call) -> bool:
    """Whether a refusal names the part that is wrong, or what holds it."""
    if call.pointer == "/security":
        return answer.status in (401, 403)
    if call.rule == "content type":
        return answer.status == 415
    if call.method == "HEAD":
        return True  # an answer without a body
    wanted = call.pointer.lower()
    return any(
        wanted.startswith(found) or found.startswith(wanted)
        for found in (str(each.get("pointer", "")).lower() for each in _errors(answer.text))
        if found.count("/") > 1 or found == "/body"
    )


def _errors(text: str) -> Sequence[dict[str, Any]]:
    try:
        found = json.loads(text).get("errors", [])
    except (ValueError, AttributeError):
        return []
    return [each for each in found if isinstance(each, dict)]


if __name__ == "__main__":
    sys.exit(main())
