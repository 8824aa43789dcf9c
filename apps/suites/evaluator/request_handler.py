"""What the evaluator process is asked for: the lints of a text, or its evaluation."""

from __future__ import annotations

from apps.suites.domain.calls import EvaluationAnswer, EvaluationRequest, TextLint
from apps.suites.evaluator.evaluation import evaluate
from apps.suites.evaluator.text_lints import text_lints


def answer(request: EvaluationRequest) -> EvaluationAnswer | list[TextLint]:
    return text_lints(request["source"]) if request["lints"] else evaluate(request)
