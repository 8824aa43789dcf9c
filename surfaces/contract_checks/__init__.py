"""Calls and answers, checked against the OpenAPI operation that they are for."""

from __future__ import annotations

from surfaces.contract_checks.operation_checks import (
    OperationChecks,
    Violation,
    checks_of,
    unchecked_parts,
)

__all__ = ["OperationChecks", "Violation", "checks_of", "unchecked_parts"]
