"""What a rule of the bundle means for a repository: its events and its targets.

(reference: sync-stack 4.2, 4.3, 4.7)
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Final

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import SINK_FLAGS, Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.environments import EnvironmentSource, resolve, slug
from sync_stack.core.events import BadPayload, Effect, Event, EventKind, ref_fields
from sync_stack.core.git_platform import git_platform
from sync_stack.core.globs import matches
from sync_stack.core.sink import Sink, SinkError, TargetPlace
from sync_stack.core.templates import render
from sync_stack.orchestrator.derived_keys import digest_key_id
from sync_stack.orchestrator.domain.identity import RecordedRef, RefName
from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.models import LedgerTarget
from sync_stack.orchestrator.selectors import ledgers, refs
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync

_OF_PULL_REQUEST: Final = re.compile(r"pr-\d+")


def rule_syncs_of(bundle: Bundle, request: TaskRequest, segment: str) -> list[RuleSync]:
    """Return a rule sync for each event, in order, and each rule of the segment that matches it."""
    found = []
    for number, event in enumerate(request.events):
        for rule in bundle.rules_of_segment(segment):
            named = not request.rules or rule.name in request.rules
            if named and rule.platform == event.platform and is_for(rule, event.repo):
                requested = replace(rule, dry_run=rule.dry_run or request.dry_run)
                sync = RuleSync(
                    rule=requested,
                    event=event,
                    number=number,
                    effect=_effect(bundle, event),
                    digest=rule_digest(bundle, requested),
                )
                found.append(sync)
    return found


def _effect(bundle: Bundle, event: Event) -> Effect:
    """Return what the action of a pull request asks for; anything else asks for a sync."""
    if event.kind is not EventKind.PULL_REQUEST or not event.action:
        return Effect.SYNC
    return git_platform(bundle.platform(event.platform)).effect(event.action)


def purge_sync_of(attempt: Attempt) -> RuleSync | None:
    """Return a sync of the target's rule, or of a substitute; None without a target."""
    row = ledgers.get_row(attempt.request.purge)
    if row is None:
        return None
    rule = attempt.bundle.find_rule(row.rule_id) or Rule(
        name=row.rule_id,
        platform=row.platform,
        datasource=row.datasource,
        segment=row.datasource,
        repositories=(row.repo,),
    )
    event = Event(
        platform=row.platform, kind=EventKind.PUSH, repo=row.repo, clone_url="", ref=row.ref
    )
    return RuleSync(rule=replace(rule, dry_run=False), event=event)


def rule_digest(bundle: Bundle, rule: Rule) -> str:
    """Return a digest of the rule and its datasource; secrets count as references."""
    known = [_plain(rule), _plain(bundle.datasource(rule.datasource)), digest_key_id()]
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    match value:
        case SecretRef():
            plain: Any = str(value)
        case Enum():
            plain = value.value
        case Mapping():
            plain = {str(key): _plain(entry) for key, entry in value.items()}
        case tuple() | list():
            plain = [_plain(entry) for entry in value]
        case _ if is_dataclass(value):
            plain = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
        case _:
            plain = value
    return plain


def event_for(bundle: Bundle, rule: Rule, repo: str, ref: str) -> Event:
    """Return an event for the current state of a ref, without a commit. Raises BadPayload.

    A pull request is as its last event said; without one it counts as a fork's.
    """
    platform = bundle.platform(rule.platform)
    url = rule.repo_url or git_platform(platform).clone_url(platform, repo)
    name = RefName(rule=rule.name, repo=repo, ref=ref)
    return event_of_ref(name, refs.find(name), platform=platform.name, clone_url=url)


def event_of_ref(
    name: RefName, record: RecordedRef | None, *, platform: str, clone_url: str
) -> Event:
    """Return the event of `event_for`; a sync takes the address of the bundle, not `clone_url`."""
    event = partial(Event, platform=platform, repo=name.repo, clone_url=clone_url)
    ref = name.ref
    pull = pull_request_of(ref)
    if not pull:
        return event(**ref_fields(ref))
    observed = record.observed if record else None
    return event(
        kind=EventKind.PULL_REQUEST,
        ref=ref,
        pr=pull,
        action=observed.action if observed else "",
        fork=observed is None or observed.fork,
    )


def pull_request_of(ref: str) -> int:
    """Return the number in the ref of a pull request, 0 for other refs."""
    parts = ref.split("/")
    if parts[:1] != ["refs"] or parts[1:2] not in (["pull"], ["merge-requests"], ["pull-requests"]):
        return 0
    return int(parts[2]) if parts[2].isascii() and parts[2].isdigit() else 0


def place_of(rule: Rule, repo: str, names: Mapping[str, str]) -> TargetPlace:
    """Return what the rule's sink needs to name the destination of a target.

    `names`: as `template_names` returns them.
    """
    return TargetPlace(
        rule=rule.name,
        tenant=rule.tenant,
        datasource=rule.datasource,
        env=names["env"],
        repo=repo,
        rendered=render(rule.destination_template, names) if rule.destination_template else "",
        overrides={
            name: value for name in SINK_FLAGS if (value := getattr(rule, name)) is not None
        },
    )


def template_names(rule: Rule, event: Event, env: str) -> dict[str, str]:
    owner, _, repo = event.repo.rpartition("/")
    branch = event.branch or event.tag or (f"pr-{event.pr}" if event.pr is not None else "")
    return {
        "env": env,
        "tenant": rule.tenant,
        "owner": slug(owner),
        "repo": slug(repo),
        "branch": slug(branch),
        "platform": rule.platform,
        "datasource": rule.segment,
    }


def is_for(rule: Rule, repo: str) -> bool:
    """Return whether a rule takes a repository; patterns ignore case, and exclusion wins."""

    def among(patterns: Sequence[str]) -> bool:
        return any(matches(pattern, repo, ignore_case=True) for pattern in patterns)

    return among(rule.repositories) and not among(rule.exclude_repositories)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLocation:
    """The source of a target, and its destination."""

    repo: str
    env: str
    ref: str
    destination_id: str


def is_orphan(
    bundle: Bundle, target: LedgerTarget, open_sink: Callable[[Datasource], Sink]
) -> bool:
    """Return whether no rule takes its repository, names its environment and writes where it is.

    A rule that this build cannot serve keeps its targets. Raises SinkError, SecretError.
    """
    if any(rule.name == target.rule_id for rule in bundle.disabled_rules):
        return False
    rule = bundle.find_rule(target.rule_id)
    if rule is None or not is_for(rule, target.repo):
        return True
    if not target.ref:
        return False
    sink = open_sink(bundle.datasource(rule.datasource))
    found = TargetLocation(
        repo=target.repo, env=target.env, ref=target.ref, destination_id=target.destination_id
    )
    return not is_produced(rule, found, sink)


def is_produced(rule: Rule, target: TargetLocation, sink: Sink) -> bool:
    """Return whether the rule still writes this environment to this destination.

    Overrides may name any environment. The ref of a pull request may be a branch (Bitbucket), so
    its environment identifies it. Any branch may be the default branch.
    """
    name = RefName(rule=rule.name, repo=target.repo, ref=target.ref)
    try:
        event = event_of_ref(name, refs.find(name), platform=rule.platform, clone_url="")
        place = place_of(rule, target.repo, template_names(rule, event, target.env))
        same_place = sink.destination(place).id == target.destination_id
    except (BadPayload, SinkError):
        return False
    if rule.allow_overrides or (rule.env_as_pr and _OF_PULL_REQUEST.fullmatch(target.env)):
        return same_place
    found = resolve(rule, event, default_branch=event.branch)
    if found.source is EnvironmentSource.FILES:
        return same_place and any(entry.env == target.env for entry in rule.file_path_map)
    return same_place and found.environment == target.env
