"""What a target is planned from: the keys of its files, and its destination as it is now.

(reference: sync-stack 4.5, 4.6, 4.8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.datasources import KeyCase
from sync_stack.core.bundle.rules import Prune, Rule
from sync_stack.core.formats import detect
from sync_stack.core.journal import JournalRecord
from sync_stack.core.ownership import refuse_overlap
from sync_stack.core.plan import DesiredKey, PlanRequest
from sync_stack.core.shaping.model import Shaped, ShapedKey, ShapingRules, SourceFile
from sync_stack.core.shaping.pipeline import shape
from sync_stack.core.shaping.schema import Schema, Unfetched
from sync_stack.core.shaping.secrets import SecretRules
from sync_stack.core.sink import Live
from sync_stack.core.tasks import TaskError, TaskKind
from sync_stack.core.templates import render
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.ref_state import RefState, git_source
from sync_stack.orchestrator.services.execution.targets import LoadedTarget, Target
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


def _schemas_for(attempt: Attempt, rule: Rule) -> FindSchema:
    """Return a function from a file to its schema, all of one commit of the registry.

    The central `file_name` selects the schema even if the repository names another file: a
    repository cannot choose what it is checked against.
    """
    try:
        registry = _registry(attempt)
        if registry is None:
            return lambda _file: None
        schemas = attempt.ports.schemas.at_head(registry)
    except (GitError, SecretError) as error:
        unfetched = Unfetched(reason=str(error))
        return lambda _file: unfetched

    def find(file: str) -> Schema | Unfetched | None:
        try:
            return schemas.schema_of(file, central_file=rule.file_name)
        except GitError as error:
            return Unfetched(reason=str(error))

    return find


def _registry(attempt: Attempt) -> RegistryFolder | None:
    bundle = attempt.bundle
    found = bundle.schema_registry
    if found is None:
        return None
    platform = bundle.platform(found.platform)
    source = git_source(platform, None, found.repo, attempt.ports.resolve)
    return RegistryFolder(source=source, branch=found.branch, path=found.path.strip("/"))


def load_target(
    attempt: Attempt, ref_state: RefState, target: Target, older: tuple[JournalRecord, ...]
) -> LoadedTarget | str:
    """Return the target with what it is planned from, or why it has nothing to write.

    `older`: the journal of an attempt that is rolled forward. Raises KNOWN_ERRORS.
    """
    rule, tree = ref_state.rule, ref_state.tree
    shaped = Shaped(values={}, keys={})
    formats: Mapping[str, str] = {}
    desired: Mapping[str, DesiredKey] = {}
    if tree is not None:
        if not target.files.files:
            return "no_files"
        shaped, formats = _shape_target(attempt, ref_state, target, tree)
        if shaped.env_not_in_file:
            return "env_not_in_file"
        desired = _desired_keys(attempt, ref_state, target, shaped)
    cleans_up, logged = tree is None, _logged_keys(target, shaped)
    request = PlanRequest(
        owner=target.owner,
        capabilities=target.sink.capabilities,
        desired=desired,
        live=Live(),
        mode=rule.sync_mode,
        prune=Prune(enabled=True, protection=rule.prune.protection) if cleans_up else rule.prune,
        missing_files=target.files.missing,
        approved=attempt.approved_keys(target.destination.id, target.place.env),
        adopt=rule.adopt,
        heal=attempt.task.kind == TaskKind.HEAL,
        limits_waived=cleans_up,
    )
    return LoadedTarget(
        target=target,
        request=read_destination(target, request),
        shaped=shaped,
        formats=formats,
        logged=logged,
        older=older,
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
    find_schema = _schemas_for(attempt, ref_state.sync.rule)
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
    return {
        name: DesiredKey(
            value=values[key],
            record=target.sink.record(target.place, target.destination, name, found.file),
            file=found.file,
            secret=found.secret is not None,
        )
        for name, key, found in _fold_case(target, shaped)
    }


def _logged_keys(target: Target, shaped: Shaped) -> frozenset[str]:
    """Return the keys that `@logger()` or `x-partita-log` names, as the sink spells them."""
    cased = _CASES[target.sink.capabilities.key_case]
    return frozenset(cased(key) for key, found in shaped.keys.items() if found.logged)


def _fold_case(target: Target, shaped: Shaped) -> list[tuple[str, str, ShapedKey]]:
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
