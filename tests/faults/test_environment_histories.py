"""A few random histories of environments; `make faults` plays 10,000 (reference: control-plane 17).

Always the same ones, unless PARTITA_FAULT_SEED names another seed.
"""

from __future__ import annotations

import os

import pytest

from tests.faults import environment_machine

SEED = int(os.environ.get("PARTITA_FAULT_SEED", "1"))
FEW = 40


@pytest.mark.django_db(transaction=True)
def test_no_history_removes_what_is_foreign_or_kept_or_leaves_what_is_ours() -> None:
    """Invariant 15."""
    print(f"PARTITA_FAULT_SEED={SEED}")

    done = environment_machine.run(FEW, SEED)

    assert all(done[name] for name in ("removed", "removed_zombies", "killed", "sweep", "keep"))
