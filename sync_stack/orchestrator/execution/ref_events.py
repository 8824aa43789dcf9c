"""Events that nobody sent: a ref that is to be looked at, whatever it is now."""

from __future__ import annotations

from typing import Any

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.events import Event, EventKind, ref_fields
from sync_stack.orchestrator.execution.sources import url_of
from sync_stack.orchestrator.rows import refs
from sync_stack.orchestrator.rows.refs import RefName


def event_for(bundle: Bundle, rule: Rule, repo: str, ref: str) -> Event:
    """An event without a commit: whatever the ref is now. Raises BadPayload."""
    platform = bundle.platform(rule.platform)
    url = rule.repo_url or url_of(platform, repo)
    name = RefName(rule=rule.name, repo=repo, ref=ref)
    return Event(platform=platform.name, repo=repo, clone_url=url, **_fields(name))


def _fields(name: RefName) -> dict[str, Any]:
    """A pull request is what its last event said, closed or a fork's; unknown, it is a fork's."""
    pull = pull_request_of(name.ref)
    if not pull:
        return ref_fields(name.ref)
    record = refs.find(name)
    seen = record.seen if record else None
    return {
        "kind": EventKind.PULL_REQUEST,
        "ref": name.ref,
        "pr": pull,
        "action": seen.action if seen else "",
        "fork": seen is None or seen.fork,
    }


def pull_request_of(ref: str) -> int:
    """The number in a pull request's ref; 0 for other refs."""
    parts = ref.split("/")
    if parts[:1] != ["refs"] or parts[1:2] not in (["pull"], ["merge-requests"], ["pull-requests"]):
        return 0
    return int(parts[2]) if parts[2].isascii() and parts[2].isdigit() else 0
