"""The targets of a rule sync: of its ref, of the baseline of a heal, or the orphan of a purge.

(reference: sync-stack 4.3, 4.4, 4.7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sync_stack.core.environments import TargetFiles
from sync_stack.core.ledger import Ledger
from sync_stack.core.sink import Destination, Owner, TargetMarker, TargetPlace
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.domain.identity import TargetKey
from sync_stack.orchestrator.domain.task_documents import RuleSyncOutcome
from sync_stack.orchestrator.selectors import ledgers
from sync_stack.orchestrator.services.execution.attempt import Attempt, GuardedSink, RuleSync
from sync_stack.orchestrator.services.execution.ref_state import (
    RefState,
    read_baseline,
    read_ref,
)
from sync_stack.orchestrator.services.execution.rule_scope import (
    is_orphan,
    place_of,
    template_names,
)
from sync_stack.repositories import RepositorySource


@dataclass(slots=True, kw_only=True)
class Target:
    """A target while an attempt works on it; `ledger` is None until its first write."""

    files: TargetFiles
    place: TargetPlace
    destination: Destination
    sink: GuardedSink
    ledger: Ledger | None
    generation: int = 0
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        former = self.ledger.former_rules if self.ledger else frozenset()
        place = self.place
        return Owner(rule=place.rule, repo=place.repo, env=place.env, former_rules=former)

    @property
    def has_intent(self) -> bool:
        return self.ledger is not None and self.ledger.intent is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWork:
    """The targets to sync with the files of a ref's tree, or, without a tree, to clean up.

    `heals`: only what differs is written. `purges`: the ledger goes as well.
    """

    ref_state: RefState
    targets: tuple[Target, ...]
    heals: bool = False
    purges: bool = False

    @property
    def cleans_up(self) -> bool:
        return self.ref_state.tree is None


Work = RuleWork | RuleSyncOutcome  # an outcome where there is nothing to do


def identity_of(work: Work) -> tuple[str, bool, set[tuple[str, str]]]:
    """Return the message of an outcome, whether it is a clean-up, and the places of targets."""
    if isinstance(work, RuleSyncOutcome):
        return work.message, False, set()
    places = {(target.place.env, target.destination.id) for target in work.targets}
    return "", work.cleans_up, places


def load_ref(attempt: Attempt, sync: RuleSync) -> Work:
    """Return the targets of the head, or of a clean-up those to which something was applied."""
    attempt.stage("git", 0.0)
    attempt.heartbeat.check()
    ref_state = read_ref(attempt, sync)
    targets = [_target(attempt, ref_state, files) for files in ref_state.files]
    if ref_state.tree is None:
        targets = [each for each in targets if each.ledger and each.ledger.applied]
    if not targets:
        return ref_state.outcome()
    return RuleWork(ref_state=ref_state, targets=tuple(targets))


def _target(attempt: Attempt, ref_state: RefState, files: TargetFiles) -> Target:
    """Return the target at its destination, with its ledger. Raises SinkError."""
    rule, event, bundle = ref_state.sync.rule, ref_state.event, attempt.bundle
    sink = attempt.open_sink(rule.datasource)
    names = template_names(rule, event, files.env)
    place = place_of(rule, event.repo, names)
    destination = sink.destination(place)
    key = TargetKey(rule=rule.name, repo=event.repo, env=files.env, destination_id=destination.id)
    # rules that this build cannot serve exist as well
    disabled = {each.name for each in bundle.disabled_rules}
    known_rules = frozenset({each.name for each in bundle.rules} | disabled)
    return Target(
        files=files,
        place=place,
        destination=destination,
        sink=sink,
        ledger=ledgers.find(key) or ledgers.adoptable(key, known_rules),
        names=names,
    )


def load_baseline(attempt: Attempt, sync: RuleSync) -> Work:
    """Return the target of a heal with the ledger's commit, whatever the ref is now.

    The outcome is `superseded` if the ledger is no longer the one that the watcher compared with.
    """
    ledger = _healable_ledger(attempt, sync)
    if ledger is None or ledger.applied is None:
        return RuleSyncOutcome(message="superseded")
    ref_state = read_baseline(attempt, sync, ledger.env, ledger.applied)
    (files,) = ref_state.files
    target = _target(attempt, ref_state, files)
    if target.destination.id != ledger.destination_id:
        return RuleSyncOutcome(message="superseded")
    target.ledger = ledger
    return RuleWork(ref_state=ref_state, targets=(target,), heals=True)


def _healable_ledger(attempt: Attempt, sync: RuleSync) -> Ledger | None:
    """Return the ledger if generation, ref, commit and rule are still what the heal asks for."""
    heal = attempt.request.heal
    if heal is None:
        raise TaskError("internal_error", "the task names no target to heal")
    key = TargetKey(
        rule=sync.rule.name,
        repo=sync.event.repo,
        env=heal.env,
        destination_id=heal.destination_id,
    )
    ledger = ledgers.find(key)
    if ledger is None or ledger.applied is None:
        return None
    applied = ledger.applied
    same = (
        heal.generation in (0, applied.generation)
        and heal.ref in ("", applied.ref)
        and heal.commit in ("", applied.commit)
    )
    return ledger if same and applied.rule_digest == sync.digest else None


def load_orphan(attempt: Attempt, sync: RuleSync) -> Work:
    """Return an orphan, of which all goes but protected keys and those with another's marker.

    Nothing is read from Git, and the rule's own protection applies.
    """
    row = ledgers.get_row(attempt.request.purge)
    if row is None:
        return RuleSyncOutcome(message="superseded")
    destination, ledger = ledgers.destination_of(row), ledgers.ledger_of(row)
    if not is_orphan(attempt.bundle, row, attempt.ports.open_sink):
        return RuleSyncOutcome(message="superseded")
    if row.datasource not in {each.name for each in attempt.bundle.datasources}:
        detail = f"datasource {row.datasource!r} is not in the bundle: release the target instead"
        raise TaskError("destination_invalid", detail)
    target = _stored_target(attempt, ledger, destination, rendered=row.destination)
    places = (target.place, replace(target.place, rendered=""))  # the same host, bucket or folder?
    if all(target.sink.destination(each).id != row.destination_id for each in places):
        detail = (
            f"datasource {row.datasource!r} now points to another place: release the target instead"
        )
        raise TaskError("destination_invalid", detail)
    applied = ledger.applied
    ref_state = RefState(
        source=RepositorySource(url=""),
        head=applied.commit if applied else "",
        sync=sync,
        event=sync.event,
        rule=sync.rule,
        rule_digest=applied.rule_digest if applied else "",
    )
    return RuleWork(ref_state=ref_state, targets=(target,), purges=True)


def _stored_target(
    attempt: Attempt, ledger: Ledger, destination: Destination, *, rendered: str = ""
) -> Target:
    """Return a target as its ledger describes it, without files. Raises SinkError, SecretError."""
    return Target(
        files=TargetFiles(env=ledger.env),
        place=TargetPlace(
            rule=ledger.rule_id,
            tenant=ledger.tenant,
            datasource=ledger.datasource,
            env=ledger.env,
            repo=ledger.repo,
            rendered=rendered,
        ),
        destination=destination,
        sink=attempt.open_sink(ledger.datasource),
        ledger=ledger,
    )


def unfinished_targets(
    attempt: Attempt, sync: RuleSync, others: Sequence[Target] = ()
) -> list[Target]:
    """Return targets of the rule and ref with an intent, without `others`.

    A dry run, a heal and a purge recover none.
    """
    if sync.rule.dry_run or not attempt.follows_ref:
        return []
    handled = {(target.place.env, target.destination.id) for target in others}
    return [
        _stored_target(attempt, ledger, destination)
        for ledger, destination in ledgers.with_intents(sync.rule.name, sync.event.repo)
        if (ledger.env, destination.id) not in handled
        and ledger.datasource == sync.rule.datasource
        and ledger.intent
        and ledger.intent.state.ref == sync.event.ref
    ]


def marker_of(attempt: Attempt, target: Target, ref: str, commit: str) -> TargetMarker:
    """Return what the sink notes of the target on each record that is written now."""
    place = target.place
    return TargetMarker(
        rule=place.rule,
        repo=place.repo,
        env=place.env,
        generation=target.generation,
        tenant=place.tenant,
        datasource=place.datasource,
        ref=ref,
        commit=commit,
        tags=dict(attempt.bundle.global_tags),
        updated_at=attempt.now(),
    )
