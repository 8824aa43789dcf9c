"""Plan one target from its files; nothing is written (reference: sync-stack 4.5, 4.6, 4.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import KeyCase
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.rules import Prune
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ledger import Ledger
from sync_stack.core.ownership import PlanRefused, refuse_overlap
from sync_stack.core.plan import DesiredKey, Plan, PlanRequest, plan_apply
from sync_stack.core.shaping import (
    Schema,
    SecretRules,
    Shaped,
    ShapingRules,
    SourceFile,
    Unfetched,
    shape,
)
from sync_stack.core.sink import Live
from sync_stack.core.tasks import TaskError
from sync_stack.core.templates import render
from sync_stack.formats import detect
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.services.execution.ref_state import RefState, git_source
from sync_stack.orchestrator.services.execution.targets import Unit
from sync_stack.repositories import GitError, TreeEntry
from sync_stack.repositories.entry import readable
from sync_stack.repositories.schemas import Registry

FindSchema = Callable[[str], Schema | Unfetched | None]
_CASES: Final[Mapping[KeyCase, Callable[[str], str]]] = {
    KeyCase.KEEP: str,
    KeyCase.UPPER: str.upper,
    KeyCase.LOWER: str.lower,
}


def refresh_schemas(attempt: Attempt) -> None:
    """After a push to the registry. Raises TaskError, GitError, SecretError."""
    registry = _registry(attempt)
    if registry is None:
        raise TaskError("rule_removed", "the bundle has no schema registry any more")
    attempt.ports.schemas.refresh(registry)


def schemas_for(attempt: Attempt, part: RuleSync) -> FindSchema:
    """File → its schema, all of one commit of the registry; a registry is asked once a unit.

    The central `file_name` decides where the repository names another file: a repository cannot
    choose what it is checked against.
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
            return shelf.schema_of(file, central_file=part.rule.file_name)
        except GitError as error:
            return Unfetched(reason=str(error))

    return find


def _registry(attempt: Attempt) -> Registry | None:
    bundle: Bundle = attempt.bundle
    found = bundle.schema_registry
    if found is None:
        return None
    platform = bundle.platform(found.platform)
    source = git_source(platform, None, found.repo, attempt.ports.resolve)
    return Registry(source=source, branch=found.branch, path=found.path.strip("/"))


@dataclass(slots=True, kw_only=True)
class Planned:
    """A unit with its plan. `older` is the journal of an attempt that is rolled forward.

    `told`: keys whose changes the schema wants in the log.
    """

    unit: Unit
    shaped: Shaped
    formats: Mapping[str, str]
    request: PlanRequest
    plan: Plan
    older: tuple[JournalRecord, ...] = ()
    journal: str = ""
    restored: int = 0
    replans_left: int = field(default=0)
    told: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A unit's content: its keys, and the format of each file."""

    shaped: Shaped
    formats: Mapping[str, str]


def shape_unit(
    attempt: Attempt, part: RuleSync, reading: RefState, unit: Unit, tree: Mapping[str, TreeEntry]
) -> Shape:
    """Read and shape the unit's files. Raises GitError, ShapingError."""
    repositories, rule = attempt.ports.repositories, reading.rule
    entries = [entry for path in unit.files.files if (entry := readable(tree, path))]
    repositories.bring(reading.source, entries)
    find_schema = schemas_for(attempt, part)
    sources, formats = [], {}
    for entry in entries:
        content = repositories.content(reading.source, entry, max_bytes=rule.max_file_bytes)
        chosen = detect(entry.path, file_format=rule.file_format)
        formats[entry.path] = chosen.name
        parsed = chosen.parse(content, file=entry.path)
        sources.append(SourceFile(file=entry.path, tree=parsed, schema=find_schema(entry.path)))
    return Shape(shaped=shape(sources, _rules(attempt, reading, unit)), formats=formats)


def _rules(attempt: Attempt, reading: RefState, unit: Unit) -> ShapingRules:
    return ShapingRules.of_rule(
        reading.rule,
        environment=unit.files.env,
        key_format=unit.sink.capabilities.key_formats[0],
        secrets=_secret_rules(attempt, reading, unit),
    )


def _secret_rules(attempt: Attempt, reading: RefState, unit: Unit) -> SecretRules:
    managers = attempt.bundle.secret_managers
    name = reading.rule.secret_manager or (managers[0].name if len(managers) == 1 else "")
    if not name:
        return SecretRules(allowed=not reading.event.fork)
    prefix = render(attempt.bundle.secret_manager(name).path_prefix, unit.names)
    return SecretRules(manager=name, prefix=prefix, allowed=not reading.event.fork)


def desired_keys(
    attempt: Attempt, reading: RefState, unit: Unit, shaped: Shaped
) -> dict[str, DesiredKey]:
    """Every key with its value, secrets fetched (`***` in a dry run). Raises TaskError."""
    if reading.rule.dry_run:
        values = shaped.shown()
    else:
        fetched = {
            ref: attempt.ports.resolve(ref, unit.names) for ref in set(shaped.secrets.values())
        }
        values = shaped.complete(fetched)
    return {
        name: DesiredKey(
            value=values[key],
            record=unit.sink.record(unit.place, unit.destination, name, found.file),
            file=found.file,
            secret=found.secret is not None,
        )
        for name, key, found in _cased(unit, shaped)
    }


def told_keys(unit: Unit, shaped: Shaped) -> frozenset[str]:
    """The keys that `@logger()` or `x-partita-log` names, as the sink has them."""
    cased = _CASES[unit.sink.capabilities.key_case]
    return frozenset(cased(key) for key, found in shaped.keys.items() if found.logged)


def _cased(unit: Unit, shaped: Shaped) -> list[tuple[str, str, Any]]:
    """(name in the sink, key, where from). Raises TaskError(key_conflict)."""
    cased = _CASES[unit.sink.capabilities.key_case]
    names: dict[str, str] = {}
    for key, found in shaped.keys.items():
        name = cased(key)
        if name in names:
            detail = f"{names[name]!r} and {key!r} are both {name!r} here"
            raise TaskError("key_conflict", detail, file=found.file, line=found.line)
        names[name] = key
    return [(name, key, shaped.keys[key]) for name, key in names.items()]


class PlanStopped(PlanRefused):
    """A guard stops a dry run; `plan` is what would be done without it."""

    def __init__(self, refused: PlanRefused, plan: Plan) -> None:
        super().__init__(refused.code, refused.detail, refused.keys)
        self.plan = plan


def plan_unit(
    attempt: Attempt,
    part: RuleSync,
    reading: RefState,
    unit: Unit,
    desired: Mapping[str, DesiredKey],
) -> tuple[PlanRequest, Plan]:
    """Read live and decide. Raises PlanRefused, in a dry run PlanStopped, and SinkError."""
    refuse_overlap(unit.destination, _older_neighbours(unit))
    known = unit.ledger.records() if unit.ledger else frozenset()
    wanted = known | {entry.record for entry in desired.values()}
    live = unit.sink.read(unit.destination, unit.owner, sorted(wanted))
    request = _request(attempt, reading, unit, desired, live)
    try:
        return request, plan_apply(request)
    except PlanRefused as refused:
        if refused.code != "prune_guard" or not reading.rule.dry_run:
            raise
        raise PlanStopped(refused, plan_apply(replace(request, limits_waived=True))) from None


def _request(
    attempt: Attempt,
    reading: RefState,
    unit: Unit,
    desired: Mapping[str, DesiredKey],
    live: Live,
) -> PlanRequest:
    rule = reading.rule
    return PlanRequest(
        owner=unit.owner,
        capabilities=unit.sink.capabilities,
        desired=desired,
        live=live,
        ledger=unit.ledger,
        mode=rule.sync_mode,
        prune=rule.prune,
        missing_files=unit.files.missing,
        taken=_taken(unit),
        approved=attempt.approved(unit.destination.id, unit.place.env),
        adopt=rule.adopt,
        heal=attempt.task.kind == "heal",
    )


def cleanup_request(attempt: Attempt, reading: RefState, unit: Unit) -> tuple[PlanRequest, Plan]:
    """Nothing is desired any more: every owned key goes, but protected ones."""
    known = unit.ledger.records() if unit.ledger else frozenset()
    live = unit.sink.read(unit.destination, unit.owner, sorted(known))
    request = _request(attempt, reading, unit, {}, live)
    prune = Prune(enabled=True, protection=reading.rule.prune.protection)
    request = replace(request, prune=prune, limits_waived=True)
    return request, plan_apply(request)


def _older_neighbours(unit: Unit) -> Mapping[str, Any]:
    if not unit.destination.separator:
        return {}
    older_than = unit.ledger.unit_id if unit.ledger else ""
    return ledgers.may_overlap(unit.destination.kind, older_than=older_than)


def _taken(unit: Unit) -> dict[str, str]:
    """Record → unit, of all other units of the destination."""
    mine = unit.ledger.unit_id if unit.ledger else ""
    others = ledgers.at_destination(unit.destination.id, other_than=mine)
    return {record: _name(other) for other in others for record in other.records()}


def _name(ledger: Ledger) -> str:
    return f"rule {ledger.rule_id!r}, {ledger.repo}, environment {ledger.env!r}"
