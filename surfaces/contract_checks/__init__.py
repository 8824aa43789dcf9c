"""Calls and answers checked against the contract of their operation."""

from __future__ import annotations

from surfaces.contract_checks.operation_checks import (
    OperationChecks,
    Violation,
    checks_of,
    unchecked_parts,
)

__all__ = ["OperationChecks", "Violation", "checks_of", "unchecked_parts"]
