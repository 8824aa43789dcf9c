"""What a target is planned from: the keys of its files, and its destination as it is now.

(reference: sync-stack 4.5, 4.6, 4.8)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sync_stack.core.bundle.rules import Prune
from sync_stack.core.formats import detect
from sync_stack.core.ownership import refuse_overlap
from sync_stack.core.plan import DesiredKey, PlanRequest
from sync_stack.core.shaping.model import Shaped, ShapingRules, SourceFile
from sync_stack.core.shaping.pipeline import shape
from sync_stack.core.shaping.secrets import SecretRules
from sync_stack.core.sink import Live
from sync_stack.core.templates import render
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.recovery import finish_intent
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.results import KNOWN_ERRORS
from sync_stack.orchestrator.services.execution.schema_registry import schemas_for
from sync_stack.orchestrator.services.execution.target_plans import (
    LoadedTarget,
    LoadedTargets,
    TargetContent,
    TargetFailed,
)
from sync_stack.orchestrator.services.execution.targets import RuleWork, Target
from sync_stack.repositories import TreeEntry
from sync_stack.repositories.entry import readable


def load_targets(attempt: Attempt, work: RuleWork) -> LoadedTargets:
    """Finish the intents of earlier attempts, and load targets up to the first that fails.

    Raises LostTask.
    """
    found, ref_state = LoadedTargets(), work.ref_state
    for target in work.targets:
        try:
            older = () if ref_state.rule.dry_run else finish_intent(attempt, target, ref_state)
            content = _read_content(attempt, ref_state, target)
            if isinstance(content, str):
                found.idle.append((target, content))
                continue
            request = _plan_request(attempt, work, target, content)
            request = read_destination(target, request)
        except KNOWN_ERRORS as error:
            found.failure = TargetFailed(target, error)
            break
        loaded = LoadedTarget(target=target, content=content, request=request, older=older)
        found.loaded.append(loaded)
    return found


def _plan_request(
    attempt: Attempt, work: RuleWork, target: Target, content: TargetContent
) -> PlanRequest:
    """Return what a target is planned from, without what is live."""
    rule, cleans_up = work.ref_state.rule, work.cleans_up
    return PlanRequest(
        owner=target.owner,
        capabilities=target.sink.capabilities,
        desired=content.desired,
        live=Live(),
        mode=rule.sync_mode,
        prune=Prune(enabled=True, protection=rule.prune.protection) if cleans_up else rule.prune,
        missing_files=target.files.missing,
        approved=attempt.approved_keys(target.destination.id, target.place.env),
        adopt=rule.adopt,
        heal=work.heals,
        limits_waived=cleans_up,
    )


def read_destination(target: Target, request: PlanRequest) -> PlanRequest:
    """Return the request with the ledger, the live records and their owners as they are now.

    Raises SinkError, and PlanRefused if the destination overlaps that of an older target; only a
    clean-up goes on there.
    """
    ledger, destination = target.ledger, target.destination
    unit_id = ledger.unit_id if ledger else ""
    if destination.separator and not request.limits_waived:
        refuse_overlap(destination, ledgers.may_overlap(destination.kind, older_than=unit_id))
    records = {entry.record for entry in request.desired.values()}
    records |= ledger.records() if ledger else frozenset()
    live = target.sink.read(destination, target.owner, sorted(records))
    others = ledgers.at_destination(destination.id, other_than=unit_id)
    taken = {
        record: f"rule {other.rule_id!r}, {other.repo}, environment {other.env!r}"
        for other in others
        for record in other.records()
    }
    return replace(request, ledger=ledger, live=live, taken=taken)


def _read_content(attempt: Attempt, ref_state: RefState, target: Target) -> TargetContent | str:
    """Return the content of a target's files, or why it has nothing to write.

    A clean-up reads no file. Raises GitError, ShapingError, SecretError, TaskError.
    """
    tree = ref_state.tree
    if tree is None:
        return TargetContent()
    if not target.files.files:
        return "no_files"
    shaped, formats = _shape_target(attempt, ref_state, target, tree)
    if shaped.env_not_in_file:
        return "env_not_in_file"
    return TargetContent(
        desired=_desired_keys(attempt, ref_state, target, shaped),
        shaped=shaped,
        formats=formats,
        logged=shaped.logged_keys(target.sink.capabilities.key_case),
    )


def _shape_target(
    attempt: Attempt,
    ref_state: RefState,
    target: Target,
    tree: Mapping[str, TreeEntry],
) -> tuple[Shaped, dict[str, str]]:
    """Return the keys of a target and the format of each file. Raises GitError, ShapingError."""
    repositories, rule = attempt.ports.repositories, ref_state.rule
    rules = _shaping_rules(attempt, ref_state, target)
    entries = [entry for path in target.files.files if (entry := readable(tree, path))]
    repositories.bring(ref_state.source, entries)
    find_schema = schemas_for(attempt, ref_state.sync.rule)
    sources, formats = [], {}
    for entry in entries:
        content = repositories.content(ref_state.source, entry, max_bytes=rule.max_file_bytes)
        chosen = detect(entry.path, file_format=rule.file_format)
        formats[entry.path] = chosen.name
        parsed = chosen.parse(content, file=entry.path)
        sources.append(SourceFile(file=entry.path, tree=parsed, schema=find_schema(entry.path)))
    return shape(sources, rules), formats


def _shaping_rules(attempt: Attempt, ref_state: RefState, target: Target) -> ShapingRules:
    rule, managers = ref_state.rule, attempt.bundle.secret_managers
    name = rule.secret_manager or (managers[0].name if len(managers) == 1 else "")
    prefix = ""
    if name:
        prefix = render(attempt.bundle.secret_manager(name).path_prefix, target.names)
    return ShapingRules.of_rule(
        rule,
        environment=target.files.env,
        key_format=target.sink.capabilities.key_formats[0],
        secrets=SecretRules(manager=name, prefix=prefix, allowed=not ref_state.event.fork),
    )


def _desired_keys(
    attempt: Attempt, ref_state: RefState, target: Target, shaped: Shaped
) -> dict[str, DesiredKey]:
    """Return every key with its value; secrets are `***` in a dry run. Raises TaskError."""
    if ref_state.rule.dry_run:
        values = shaped.masked_values()
    else:
        fetched = {
            ref: attempt.ports.resolve(ref, target.names) for ref in set(shaped.secrets.values())
        }
        values = shaped.complete(fetched)
    desired = {}
    for name, key in shaped.spell_keys(target.sink.capabilities.key_case).items():
        found = shaped.keys[key]
        desired[name] = DesiredKey(
            value=values[key],
            record=target.sink.record(target.place, target.destination, name, found.file),
            file=found.file,
            secret=found.secret is not None,
        )
    return desired
