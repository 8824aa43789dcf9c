from __future__ import annotations

from tests.apps.mocks_rest.conftest import (  # noqa: F401 - fixtures
    _store,
    served,
    shop,
)
from tests.apps.suites.conftest import library, workspace  # noqa: F401 - fixtures
