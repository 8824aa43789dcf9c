"""Whether a rule still yields a unit; what no rule yields is an orphan.

(reference: sync-stack 4.7)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.environments import EnvironmentRules, Source, resolve
from sync_stack.core.events import BadPayload, Event
from sync_stack.core.sink import Sink, SinkError
from sync_stack.orchestrator.execution.ref_events import event_for
from sync_stack.orchestrator.execution.rule_sync import is_for
from sync_stack.orchestrator.execution.units import place_of
from sync_stack.orchestrator.models import LedgerUnit

_OF_PULL_REQUEST: Final = re.compile(r"pr-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLocation:
    """What a unit was made from, and where it is."""

    repo: str
    env: str
    ref: str
    destination_id: str


def is_orphan(
    bundle: Bundle, unit: LedgerUnit, open_sink: Callable[[Datasource], Sink] | None
) -> bool:
    """No rule takes its repository, names its environment or writes where it is.

    Without sinks only the first is looked at. A rule that this build cannot serve keeps its units.
    """
    if any(rule.name == unit.rule_id for rule in bundle.disabled_rules):
        return False
    rule = next((rule for rule in bundle.rules if rule.name == unit.rule_id), None)
    if rule is None or not is_for(rule, unit.repo):
        return True
    if open_sink is None or not unit.ref:
        return False
    sink = open_sink(bundle.datasource(rule.datasource))
    found = TargetLocation(
        repo=unit.repo, env=unit.env, ref=unit.ref, destination_id=unit.destination_id
    )
    return not is_yielded(bundle, rule, found, sink)


def is_yielded(bundle: Bundle, rule: Rule, unit: TargetLocation, sink: Sink) -> bool:
    """Whether the rule writes the unit's environment to the unit's destination."""
    try:
        event = event_for(bundle, rule, unit.repo, unit.ref)
        place = place_of(rule, event, unit.env)
        same_place = sink.destination(place).id == unit.destination_id
    except (BadPayload, SinkError):
        return False
    return same_place and _names(rule, event, unit.env)


def _names(rule: Rule, event: Event, env: str) -> bool:
    """Any branch may be the default one here, and `partita.json` may say what it likes.

    The ref of a pull request may be a branch (Bitbucket): its environment tells it.
    """
    if rule.allow_overrides or (rule.env_as_pr and _OF_PULL_REQUEST.fullmatch(env)):
        return True
    found = resolve(EnvironmentRules.of(rule), event, default_branch=event.branch)
    if found.source is Source.FILES:
        return any(entry.env == env for entry in rule.file_path_map)
    return found.environment == env
