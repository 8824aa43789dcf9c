"""What to do about a target that is behind."""

from __future__ import annotations

import pytest

from sync_stack.orchestrator.domain.target_lag import TargetLag


@pytest.mark.parametrize("file", ["c/{x}.yaml", "{task}.yaml", "{", "a{0}.yaml", "{{a}}.yaml"])
def test_a_file_is_named_as_git_names_it(file: str):
    lag = TargetLag(
        rule="shop",
        repo="acme/shop",
        datasource="sink",
        state="failed",
        since="",
        code="parse_error",
        file=file,
        line=3,
    )

    assert lag.next_step == f"fix {file}:3 in Git and push"
