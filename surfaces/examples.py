"""Which examples answer a call of an operation."""

from __future__ import annotations

from surfaces.model import Exchange, Operation


def examples_of(operation: Operation) -> tuple[Exchange, ...]:
    """Return the examples of the mock; without any, those implied by its contract.

    A mock without examples that has a fallback or rules of its own keeps to these. Those of
    a contract are made anew by each call and depend on its files only.
    """
    mock = operation.mock
    decides = bool(operation.exchanges) or mock.fallback is not None or mock.dispatcher != "example"
    if decides or operation.contract_examples is None:
        return operation.exchanges
    return operation.contract_examples.exchanges()
