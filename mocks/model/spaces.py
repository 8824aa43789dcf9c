"""Mock spaces: the shared one of a suite, and those of runs (reference: control-plane 18.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

_FORM: Final = re.compile(
    r"(?P<suite>[A-Za-z0-9][A-Za-z0-9._-]{0,127})"
    r"(?:@(?P<run>[A-Za-z0-9][A-Za-z0-9-]{0,63})(?:\+(?P<path>[A-Za-z0-9][A-Za-z0-9._~-]{0,511}))?)?"
)


@dataclass(frozen=True, slots=True)
class SpaceName:
    """`shop`, `shop@run-x` or `shop@run-x+pay/db` (in addresses, `~` stands for `/`).

    `suite_id` is the suite that serves the surfaces: for an imported suite, the imported one.
    """

    suite_id: str
    execution_id: str = ""
    import_path: str = ""

    @classmethod
    def parse(cls, text: str) -> SpaceName | None:
        """Return the space that an address names, or None for another text."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        return cls(found["suite"], found["run"] or "", (found["path"] or "").replace("~", "/"))

    @property
    def is_shared(self) -> bool:
        return not self.execution_id

    def __str__(self) -> str:
        """Return the form of addresses."""
        if not self.execution_id:
            return self.suite_id
        path = f"+{self.import_path.replace('/', '~')}" if self.import_path else ""
        return f"{self.suite_id}@{self.execution_id}{path}"


def mock_url(base_url: str, name: SpaceName, surface_id: str, adapter: str) -> str:
    """Return the address of a surface, such as `…/mocks/rest/shop@run-x/payments`."""
    space = quote(str(name), safe="@+~")
    return f"{base_url.rstrip('/')}/mocks/{adapter}/{space}/{quote(surface_id, safe='')}"
