"""Plan one target from its files; nothing is written (reference: sync-stack 4.5, 4.6, 4.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import KeyCase
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Prune, Rule
from sync_stack.core.formats import detect
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ownership import PlanRefused, refuse_overlap
from sync_stack.core.plan import DesiredKey, Plan, PlanRequest, plan_apply
from sync_stack.core.shaping.model import Shaped, ShapingRules, SourceFile
from sync_stack.core.shaping.pipeline import shape
from sync_stack.core.shaping.schema import Schema, Unfetched
from sync_stack.core.shaping.secrets import SecretRules
from sync_stack.core.sink import Live
from sync_stack.core.tasks import TaskError
from sync_stack.core.templates import render
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.ref_state import RefState
from sync_stack.orchestrator.services.execution.rule_scope import git_source
from sync_stack.orchestrator.services.execution.targets import Target
from sync_stack.repositories import GitError, TreeEntry
from sync_stack.repositories.entry import readable
from sync_stack.repositories.schemas import RegistryFolder

FindSchema = Callable[[str], Schema | Unfetched | None]
_CASES: Final[Mapping[KeyCase, Callable[[str], str]]] = {
    KeyCase.KEEP: str,
    KeyCase.UPPER: str.upper,
    KeyCase.LOWER: str.lower,
}


def refresh_schemas(attempt: Attempt) -> None:
    """Fetch the registry after a push to it. Raises TaskError, GitError, SecretError."""
    registry = _registry(attempt)
    if registry is None:
        raise TaskError("rule_removed", "the bundle no longer has a schema registry")
    attempt.ports.schemas.refresh(registry)


def schemas_for(attempt: Attempt, rule: Rule) -> FindSchema:
    """Return a function from a file to its schema, all of one commit of the registry.

    The central `file_name` selects the schema even if the repository names another file: a
    repository cannot choose what it is checked against.
    """
    try:
        registry = _registry(attempt)
        if registry is None:
            return lambda _file: None
        shelf = attempt.ports.schemas.shelf(registry)
    except (GitError, SecretError) as error:
        unfetched = Unfetched(reason=str(error))
        return lambda _file: unfetched

    def find(file: str) -> Schema | Unfetched | None:
        try:
            return shelf.schema_of(file, central_file=rule.file_name)
        except GitError as error:
            return Unfetched(reason=str(error))

    return find


def _registry(attempt: Attempt) -> RegistryFolder | None:
    bundle: Bundle = attempt.bundle
    found = bundle.schema_registry
    if found is None:
        return None
    platform = bundle.platform(found.platform)
    source = git_source(platform, None, found.repo, attempt.ports.resolve)
    return RegistryFolder(source=source, branch=found.branch, path=found.path.strip("/"))


@dataclass(slots=True, kw_only=True)
class TargetPlan:
    """A target with its plan. `older` is the journal of an attempt that is rolled forward.

    `logged_keys`: keys whose changes are to be logged.
    """

    target: Target
    shaped: Shaped
    formats: Mapping[str, str]
    request: PlanRequest
    plan: Plan
    older: tuple[JournalRecord, ...] = ()
    journal: str = ""
    restored: int = 0
    replans_left: int = field(default=0)
    logged_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetShape:
    """The content of a target: its keys, and the format of each file."""

    shaped: Shaped
    formats: Mapping[str, str]


def shape_target(
    attempt: Attempt,
    ref_state: RefState,
    target: Target,
    tree: Mapping[str, TreeEntry],
) -> TargetShape:
    """Read and shape the files of a target. Raises GitError, ShapingError."""
    repositories, rule = attempt.ports.repositories, ref_state.rule
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
    return TargetShape(shaped=shape(sources, _rules(attempt, ref_state, target)), formats=formats)


def _rules(attempt: Attempt, ref_state: RefState, target: Target) -> ShapingRules:
    return ShapingRules.of_rule(
        ref_state.rule,
        environment=target.files.env,
        key_format=target.sink.capabilities.key_formats[0],
        secrets=_secret_rules(attempt, ref_state, target),
    )


def _secret_rules(attempt: Attempt, ref_state: RefState, target: Target) -> SecretRules:
    managers = attempt.bundle.secret_managers
    name = ref_state.rule.secret_manager or (managers[0].name if len(managers) == 1 else "")
    if not name:
        return SecretRules(allowed=not ref_state.event.fork)
    prefix = render(attempt.bundle.secret_manager(name).path_prefix, target.names)
    return SecretRules(manager=name, prefix=prefix, allowed=not ref_state.event.fork)


def desired_keys(
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
    return {
        name: DesiredKey(
            value=values[key],
            record=target.sink.record(target.place, target.destination, name, found.file),
            file=found.file,
            secret=found.secret is not None,
        )
        for name, key, found in _fold_case(target, shaped)
    }


def logged_keys(target: Target, shaped: Shaped) -> frozenset[str]:
    """Return the keys that `@logger()` or `x-partita-log` names, as the sink spells them."""
    cased = _CASES[target.sink.capabilities.key_case]
    return frozenset(cased(key) for key, found in shaped.keys.items() if found.logged)


def _fold_case(target: Target, shaped: Shaped) -> list[tuple[str, str, Any]]:
    """Return (name in the sink, key, shaped key) of each key. Raises TaskError(key_conflict)."""
    cased = _CASES[target.sink.capabilities.key_case]
    names: dict[str, str] = {}
    for key, found in shaped.keys.items():
        name = cased(key)
        if name in names:
            detail = f"{names[name]!r} and {key!r} both become {name!r} at this destination"
            raise TaskError("key_conflict", detail, file=found.file, line=found.line)
        names[name] = key
    return [(name, key, shaped.keys[key]) for name, key in names.items()]


class PlanStopped(PlanRefused):
    """A guard stopped a dry run; `plan` is what would be done without it."""

    def __init__(self, refused: PlanRefused, plan: Plan) -> None:
        super().__init__(refused.code, refused.detail, refused.keys)
        self.plan = plan


def plan_target(
    attempt: Attempt,
    ref_state: RefState,
    target: Target,
    desired: Mapping[str, DesiredKey],
) -> tuple[PlanRequest, Plan]:
    """Read the live records and plan. Raises PlanRefused, in a dry run PlanStopped; SinkError."""
    if target.destination.separator:
        older_than = target.ledger.unit_id if target.ledger else ""
        older = ledgers.may_overlap(target.destination.kind, older_than=older_than)
        refuse_overlap(target.destination, older)
    known = target.ledger.records() if target.ledger else frozenset()
    wanted = known | {entry.record for entry in desired.values()}
    live = target.sink.read(target.destination, target.owner, sorted(wanted))
    request = _request(attempt, ref_state, target, desired, live)
    try:
        return request, plan_apply(request)
    except PlanRefused as refused:
        if refused.code != "prune_guard" or not ref_state.rule.dry_run:
            raise
        raise PlanStopped(refused, plan_apply(replace(request, limits_waived=True))) from None


def _request(
    attempt: Attempt,
    ref_state: RefState,
    target: Target,
    desired: Mapping[str, DesiredKey],
    live: Live,
) -> PlanRequest:
    rule = ref_state.rule
    return PlanRequest(
        owner=target.owner,
        capabilities=target.sink.capabilities,
        desired=desired,
        live=live,
        ledger=target.ledger,
        mode=rule.sync_mode,
        prune=rule.prune,
        missing_files=target.files.missing,
        taken=_owners_of_records(target),
        approved=attempt.approved_keys(target.destination.id, target.place.env),
        adopt=rule.adopt,
        heal=attempt.task.kind == "heal",
    )


def cleanup_request(
    attempt: Attempt, ref_state: RefState, target: Target
) -> tuple[PlanRequest, Plan]:
    """Plan to delete every owned key except protected ones."""
    known = target.ledger.records() if target.ledger else frozenset()
    live = target.sink.read(target.destination, target.owner, sorted(known))
    request = _request(attempt, ref_state, target, {}, live)
    prune = Prune(enabled=True, protection=ref_state.rule.prune.protection)
    request = replace(request, prune=prune, limits_waived=True)
    return request, plan_apply(request)


def _owners_of_records(target: Target) -> dict[str, str]:
    """Return record → owner for all other targets of the destination."""
    own = target.ledger.unit_id if target.ledger else ""
    others = ledgers.at_destination(target.destination.id, other_than=own)
    return {
        record: f"rule {other.rule_id!r}, {other.repo}, environment {other.env!r}"
        for other in others
        for record in other.records()
    }
