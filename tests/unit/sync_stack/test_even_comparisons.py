"""How proofs are compared: in a time that tells nothing."""

from __future__ import annotations

import ast
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from sync_stack.core import signatures

SECRET = b"a key"
PROOF = hmac.digest(SECRET, b"body", "sha256").hex()
CHECKS: dict[str, Callable[[str], bool]] = {
    "hex": lambda proof: signatures.hex_hmac_matches([SECRET], b"body", proof),
    "prefixed": lambda proof: signatures.prefixed_hmac_matches(
        [SECRET], b"body", f"sha256={proof}"
    ),
    "token": lambda proof: signatures.token_matches([PROOF.encode()], proof),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_every_proof_is_compared_by_the_even_comparison_and_no_other(monkeypatch, check):
    """Sync invariant 25."""
    assert check(PROOF)
    assert not check(PROOF[:-1] + "x")
    monkeypatch.setattr(hmac, "compare_digest", lambda _one, _other: False)
    assert not check(PROOF)


def test_signatures_are_compared_by_no_operator():
    """Sync invariant 25: the only `==` of the module are with names of algorithms and numbers."""
    tree = ast.parse(Path(signatures.__file__).read_text(encoding="utf-8"))
    compared = [
        node.comparators[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq)
    ]
    assert all(isinstance(each, ast.Constant) for each in compared)
