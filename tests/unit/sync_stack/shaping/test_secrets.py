"""Values that come from a secret manager: marked, confined, never written as markers."""

from __future__ import annotations

from typing import Any

import pytest

from sync_stack.core.bundle.rules import Variable
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.secrets import SecretRules
from tests.unit.sync_stack.shaping.shaping import shaped

VAULT = SecretRules(manager="vault", prefix="apps/shop")
MARKED = "a: 1\npassword: '@secret(apps/shop/db#password)'"
REFERENCE = SecretRef(manager="vault", path="apps/shop/db", key="password")


def test_a_marked_value_is_a_reference_and_no_value() -> None:
    made = shaped(MARKED, secrets=VAULT)

    assert made.values == {"a": "1"}
    assert made.secrets == {"password": REFERENCE}


def test_dry_runs_show_stars() -> None:
    assert shaped(MARKED, secrets=VAULT).masked_values() == {"a": "1", "password": "***"}


def test_fetched_secrets_complete_the_values() -> None:
    made = shaped(MARKED, secrets=VAULT)

    assert made.complete({REFERENCE: "hunter2"}) == {"a": "1", "password": "hunter2"}


def test_a_secret_that_was_not_fetched_is_never_written_as_its_marker() -> None:
    """Sync invariant 18."""
    with pytest.raises(ShapingError) as raised:
        shaped(MARKED, secrets=VAULT).complete({})

    assert raised.value.code == "secret_unavailable"


def test_a_literal_of_variables_map_may_be_a_marker() -> None:
    made = shaped("a: 1", variables_map={"P": Variable(text="@secret(apps/shop#p)")}, secrets=VAULT)

    assert str(made.secrets["P"]) == "vault:apps/shop#p"


@pytest.mark.parametrize(
    "marker",
    [
        "@secret(apps/other#k)", "@secret(apps/shopping#k)", "@secret(apps/shop/../other#k)",
        "@secret(../apps/shop#k)", "@secret(apps/shop/./x#k)",
        "@secret(/apps/shop#k)",
        "@secret(apps/shop//x#k)", "@secret(apps/shop/%2e%2e/x#k)", "@secret(apps\\shop#k)",
        "@secret(apps/shop#)", "@secret(#k)", "@secret(apps/shop#a b)",
        "@secret(apps/shop/x?y=1#k)",
        "@secret(apps/shop#k#l)", "@secret()", "@secret(apps/shop)", "x @secret(apps/shop#k)",
        "postgres://u:@secret(apps/shop#k)@db",
    ],
)  # fmt: skip
def test_markers_outside_their_place_are_refused(marker: str) -> None:
    """Sync invariants 18 and 29."""
    error = refused(f"a: 1\nb: {marker!r}")

    assert (error.code, error.line) == ("secret_invalid", 2)


@pytest.mark.parametrize("text", ["write to me@secret(place", "see @secret(x) there", "@secrets"])
def test_texts_that_only_look_like_markers_stay(text: str) -> None:
    assert shaped(f"a: {text!r}", secrets=VAULT).values == {"a": text}


def test_a_fork_gets_no_secrets() -> None:
    """Sync invariant 18."""
    rules = SecretRules(manager="vault", prefix="apps/shop", allowed=False)

    assert refused(MARKED, secrets=rules).code == "secret_invalid"


def test_without_a_secret_manager_a_marker_is_an_error() -> None:
    assert refused(MARKED, secrets=SecretRules()).code == "secret_unavailable"


def refused(text: str, **fields: Any) -> ShapingError:
    with pytest.raises(ShapingError) as raised:
        shaped(text, **{"secrets": VAULT, **fields})
    return raised.value
