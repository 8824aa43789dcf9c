from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.engine_watch import EngineWatch
from tests.faults.rounds import SEED
from tests.support.parts import need


@pytest.fixture(scope="session")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineWatch]:
    print(f"PARTITA_FAULT_SEED={SEED}", flush=True)
    engine = need("TEST_DOCKER_HOST", "a Docker engine")
    with EngineWatch(engine, tmp_path_factory.mktemp("engine")) as watch:
        yield watch


@pytest.fixture(scope="session")
def postgres() -> str:
    return need("TEST_POSTGRES_DSN", "PostgreSQL")
