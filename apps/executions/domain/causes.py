"""Why something did not run: chains of steps from the nearest to the root.

(reference: control-plane 11.2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def cause_chain(
    step_id: str, *, reason: str, exit_code: int | None, cause: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What a dependent of that step stores as its cause: the step itself, then its own causes."""
    link: dict[str, Any] = {"stepId": step_id, "reason": reason}
    if exit_code is not None:
        link["exitCode"] = exit_code
    return [link, *map(dict, cause)]


def in_words(chain: Sequence[Mapping[str, Any]]) -> str:
    """For people: `api: exit_nonzero (exit code 3), after db: not_ready`."""
    return ", after ".join(_link_in_words(link) for link in chain)


def _link_in_words(link: Mapping[str, Any]) -> str:
    code = f" (exit code {link['exitCode']})" if "exitCode" in link else ""
    return f"{link['stepId']}: {link['reason']}{code}"
