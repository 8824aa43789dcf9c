"""Mock spaces: emptied, forgotten, and waited for until their server has taken that in."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from django.db.models import F

from apps.mocks import conf
from apps.mocks.models import MockSpace
from apps.streams.api import unit_of_work
from kernel import clock
from mocks.model.spaces import SpaceName

if TYPE_CHECKING:
    from httpx import Response

ASK_S: Final = 5.0
LEAST_ASK_S: Final = 1.0  # what an answer has, even where no time is left
_PAUSE_S: Final = 0.2
_HEADER: Final = "X-Partita-Mock-Secret"
_OK: Final = 200


@unit_of_work
def reset_space(name: SpaceName, *, surface_ids: Collection[str] = ()) -> None:
    """Empty the records and counters of a space, or of some surfaces in it.

    It is in force where `/mocks/ready` has answered since, elsewhere within 2 s.
    """
    for surface_id in surface_ids or ("",):
        rows = MockSpace.objects.filter(space=str(name), surface_id=surface_id)
        if not rows.update(resets=F("resets") + 1, updated_at=clock.now()):
            MockSpace.objects.create(
                space=str(name), surface_id=surface_id, execution_id=name.execution_id, resets=1
            )


@unit_of_work
def forget_spaces(execution_ids: Collection[str]) -> None:
    """Remove what the store knows of the spaces of runs that are removed."""
    MockSpace.objects.filter(execution_id__in=list(execution_ids)).delete()


def wait_until_ready(
    base_url: str, name: SpaceName, surface_ids: Collection[str], *, timeout_s: float
) -> str:
    """Ask `/mocks/ready/…` until every surface is served; return "", or why that is not so.

    Each surface is asked for once at least; one that does not answer ends it.
    """
    until = time.monotonic() + timeout_s
    reason = ""
    for surface_id in surface_ids:
        while reason := ask_ready(base_url, name, surface_id, within_s=until - time.monotonic()):
            if time.monotonic() + _PAUSE_S >= until:
                return reason
            time.sleep(_PAUSE_S)
    return reason


def ask_ready(base_url: str, name: SpaceName, surface_id: str, *, within_s: float = ASK_S) -> str:
    """Return "" if a surface is served now, else why it is not."""
    import httpx  # slow to import: no other use of this app needs it

    place = f"{quote(str(name), safe='@+~')}/{quote(surface_id, safe='')}"
    secret = conf.shared_secret()
    headers = {_HEADER: secret} if secret else {}
    try:
        answer = httpx.get(
            f"{base_url.rstrip('/')}/mocks/ready/{place}",
            headers=headers,
            timeout=min(ASK_S, max(LEAST_ASK_S, within_s)),
            trust_env=False,
        )
    except httpx.HTTPError as error:
        return f"the mocks at {base_url} do not answer ({type(error).__name__})"
    if answer.status_code == _OK:
        return ""
    return f"the surface {surface_id} is not served ({_detail_of(answer)})"


def _detail_of(answer: Response) -> str:
    try:
        detail = answer.json().get("detail")
    except (ValueError, AttributeError):
        detail = None
    return str(detail)[:500] if detail else f"status {answer.status_code}"
