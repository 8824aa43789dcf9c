"""The calls of prism_documents/, compared with what Prism answered when it was asked last."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
import yaml

from tests.faults.contract_documents import CallContract
from tests.faults.prism_agreement import (
    SEED,
    all_documents,
    digest,
    recorded_answers,
    written_calls,
)
from tests.support.processes import ROOT


def test_sixty_documents_of_three_versions_have_calls_and_recorded_answers():
    documents = all_documents()
    recorded = recorded_answers()

    calls = {each.name: list(each.calls(SEED)) for each in documents}
    versions = Counter(each.path.read_text().split()[1][:4].strip('"') for each in documents)

    assert versions == {"3.0.": 30, "3.1.": 15, "2.0": 15}
    assert sum(map(len, calls.values())) >= 1_500
    for name, found in calls.items():
        assert {digest(call) for call in found} == recorded[name].keys(), f"record {name} anew"


def test_each_operation_of_a_document_is_called_by_hand():
    for document in all_documents():
        contract = CallContract(yaml.load(document.path.read_text(), yaml.CSafeLoader))
        calls = list(written_calls(document.path.with_suffix(".calls").read_text()))

        assert {each.method for each in contract.operations} <= {each.method for each in calls}
        assert all(each.rule for each in calls)


@pytest.mark.slow
def test_mock_serve_answers_nearly_as_prism_does():
    said = subprocess.run(
        [sys.executable, "-m", "tests.faults.prism_agreement", "--recorded", "--no-publish"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert said.returncode == 0, said.stdout[-4_000:] + said.stderr[-2_000:]
