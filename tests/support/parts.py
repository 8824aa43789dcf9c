"""The real parts that a test asks for: skipped with a reason, or a failure where CI runs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def address(variable: str) -> str:
    """The address of a part that `make test` started; empty when it did not."""
    return os.environ.get(variable, "")


def need(variable: str, what: str) -> str:
    """The same; without it the test is skipped, or fails when CI is set."""
    return address(variable) or give_up(f"needs {what}: {variable} is not set (run `make test`)")


def give_up(sentence: str) -> NoReturn:
    """Skip the test for what is missing here; fail it where CI is set, which has everything."""
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


def need_cluster() -> str:
    """Return the kubeconfig of a Kubernetes cluster; without one the test is skipped, also in CI:
    a cluster is built where there is time for it, and then all of these tests run.
    """
    if found := address("TEST_KUBECONFIG"):
        return found
    pytest.skip("needs a Kubernetes cluster: TEST_KUBECONFIG is not set (run `make test-cluster`)")
