"""The examples of jobs, as far as no server is needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from kernel.ci_trust import matches_pattern
from tests.support.ci_job import EXAMPLES, gitlab_steps, jenkins_steps
from tests.support.processes import ROOT


@pytest.mark.parametrize("steps", [gitlab_steps, jenkins_steps], ids=["gitlab", "jenkins"])
def test_a_client_that_cannot_be_installed_is_not_the_fault_of_the_code(steps, tmp_path: Path):
    for name in ("pip", "python3"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o700)

    script = "\n".join(["set -e", *steps()])
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, cwd=tmp_path, check=False
    )
    assert done.returncode == 3


def test_the_examples_launch_on_the_branches_that_the_guides_rule_lets_in():
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    rule = yaml.safe_load(guide.split("```yaml\n")[1].split("```")[0])["ciTrust"][0]
    github = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    gitlab = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())
    [condition] = gitlab["partita"]["rules"]
    pattern = condition["if"].removeprefix("$CI_COMMIT_BRANCH =~ ").strip("/").replace("\\/", "/")

    assert github[True] == {"push": {"branches": rule["branches"]}}  # YAML reads `on` as true
    for branch in ("main", "release/1", "release/1/a", "feature", "main2", "a/main"):
        is_let_in = any(matches_pattern(each, branch) for each in rule["branches"])
        assert bool(re.search(pattern, branch)) is is_let_in, branch
