"""What the evaluator process is asked for: the lints of a text, or its evaluation."""

from __future__ import annotations

from typing import Final

import starlark

from apps.suites.domain.calls import EvaluationAnswer, EvaluationRequest, TextLint
from apps.suites.evaluator.diagnosis import FILE, SuiteSource, parse_starlark
from apps.suites.evaluator.evaluation import evaluate

MAX_LINTS: Final = 200
_RULES: Final = {
    "unused-load": ("unused_load", "{} is loaded but not used; remove it from the `load`"),
    "unreachable": ("unreachable_code", "nothing after this line of the function runs: {}"),
    "no-effect": ("no_effect", "the line computes something and does nothing with it: {}"),
    "ident-as-statement": ("no_effect", "the line names {} and does nothing with it"),
}
_SHOWN: Final = 60


def answer(request: EvaluationRequest) -> EvaluationAnswer | list[TextLint]:
    return text_lints(request["source"]) if request["lints"] else evaluate(request)


def text_lints(text: str) -> list[TextLint]:
    """Return what is most likely a mistake; nothing for a text that does not parse."""
    source = SuiteSource(text)
    try:
        found = parse_starlark(FILE, source.for_parser()).lint()
    except starlark.StarlarkError:
        return []
    lints: list[TextLint] = []
    for each in found:
        begin = each.resolved_location.span.begin
        if each.short_name in _RULES and begin.line < len(source.lines):
            code, message = _RULES[each.short_name]
            shown = " ".join(each.original.split())[:_SHOWN]
            lints.append(
                {
                    "code": code,
                    "message": message.format(f"`{shown.strip(chr(34))}`"),
                    "line": begin.line + 1,
                    "column": begin.column + 1,
                }
            )
    return lints[:MAX_LINTS]
