"""A document that an older version stored lacks keys that are known now."""

from __future__ import annotations

from apps.platform_settings.domain.keys import AGENTS
from apps.platform_settings.domain.wire import complete_wire, default_wire, mask_secrets


def test_an_agent_that_an_older_version_stored_has_every_key() -> None:
    stored = default_wire()
    for key in ("kubeconfigContext", "sharedClaim", "maxConcurrentRuns", "routingTags"):
        del stored["agents"][0][key]

    complete = complete_wire(stored)

    assert complete == default_wire()
    assert {key.name for key in AGENTS.settable} == complete["agents"][0].keys()


def test_what_is_stored_is_kept_and_can_be_shown() -> None:
    stored = default_wire()
    stored["agents"] = [{"agentId": "edge", "type": "remote-agent", "default": True}]

    [agent] = mask_secrets(complete_wire(stored), for_admin=True)["agents"]

    assert (agent["agentId"], agent["type"], agent["default"]) == ("edge", "remote-agent", True)
    assert (agent["sharedClaim"], agent["routingTags"], agent["enabled"]) == ("", [], True)
