from __future__ import annotations

from tests.apps.mocks_rest.conftest import (  # noqa: F401 - fixtures
    _store,
    library,
    served,
    shop,
    workspace,
)
