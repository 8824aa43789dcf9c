"""One sync of one unit, as the orchestrator does it: read, plan, write, delete, verify, ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from sync_stack.core.bundle.rules import Prune, SyncMode
from sync_stack.core.journal import JournalRecord, plan_restore
from sync_stack.core.ledger import Intent, Ledger, TargetState
from sync_stack.core.plan import (
    DesiredKey,
    Plan,
    PlanRequest,
    applied_keys,
    plan_apply,
    retained_keys,
)
from sync_stack.core.sink import (
    Delete,
    Destination,
    Live,
    Owner,
    Put,
    Sink,
    SinkConflict,
    TargetMarker,
    TargetPlace,
    batches,
)

DIGEST_KEY = b"digest key of the tests"
NOW = "2026-11-21T00:00:00.000Z"
PLACE = TargetPlace(
    rule="shop", tenant="default", datasource="sink", env="production", repo="acme/shop"
)


def prune(**fields: Any) -> Prune:
    """Prune that is on and unguarded unless told otherwise."""
    return Prune(**{"enabled": True, "max_delete_ratio": 1.0, "allow_empty": True} | fields)


AnySink = TypeVar("AnySink", bound=Sink)


@dataclass
class Unit(Generic[AnySink]):
    """A unit and its ledger. `generation` rises with every sync, as the destination row's does."""

    sink: AnySink
    place: TargetPlace = PLACE
    owner: Owner = field(init=False)
    ledger: Ledger | None = None
    generation: int = 0

    def __post_init__(self) -> None:
        self.owner = Owner(rule=self.place.rule, repo=self.place.repo, env=self.place.env)

    @property
    def destination(self) -> Destination:
        return self.sink.destination(self.place)

    def mark(self, generation: int | None = None) -> TargetMarker:
        return TargetMarker(
            rule=self.place.rule,
            repo=self.place.repo,
            env=self.place.env,
            tenant=self.place.tenant,
            datasource=self.place.datasource,
            ref="refs/heads/main",
            commit="c" * 40,
            generation=self.generation if generation is None else generation,
            tags={"team": "shop"},
            updated_at=NOW,
        )

    def desired(self, values: Mapping[str, str], file: str = "app.yaml") -> dict[str, DesiredKey]:
        return {
            key: DesiredKey(
                value=text,
                file=file,
                record=self.sink.record(self.place, self.destination, key, file),
            )
            for key, text in values.items()
        }

    def read(self, desired: Mapping[str, DesiredKey] | None = None) -> Live:
        known = self.ledger.records() if self.ledger else frozenset()
        wanted = known | {entry.record for entry in (desired or {}).values()}
        return self.sink.read(self.destination, self.owner, sorted(wanted))

    def request(self, desired: Mapping[str, DesiredKey], **options: Any) -> PlanRequest:
        return PlanRequest(
            owner=self.owner,
            capabilities=self.sink.capabilities,
            desired=desired,
            live=self.read(desired),
            ledger=self.ledger,
            **options,
        )

    def plan(self, values: Mapping[str, str], **options: Any) -> Plan:
        return plan_apply(self.request(self.desired(values), **options))

    def sync(self, values: Mapping[str, str], **options: Any) -> Plan:
        return self.sync_keys(self.desired(values), **options)

    def sync_keys(self, desired: Mapping[str, DesiredKey], **options: Any) -> Plan:
        """All of it; a conflict plans again as often as the sink says."""
        self.generation += 1
        request, plan = self._attempt(desired, self.sink.capabilities.replans, options)
        assert plan.unverified_records(self.read(desired)) == ()
        self._settle(request, plan)
        return plan

    def _attempt(
        self, desired: Mapping[str, DesiredKey], replans: int, options: dict[str, Any]
    ) -> tuple[PlanRequest, Plan]:
        request = self.request(desired, **options)
        plan = plan_apply(request)
        self._intend(request, plan)
        try:
            self.carry_out(plan)
        except SinkConflict:
            if not replans:
                raise
            return self._attempt(desired, replans - 1, options)
        return request, plan

    def carry_out(self, plan: Plan) -> None:
        self.apply(plan.puts, plan.deletes)

    def restore(self, journal: tuple[JournalRecord, ...]) -> None:
        live = self.sink.read(
            self.destination, self.owner, sorted(entry.record for entry in journal)
        )
        restore = plan_restore(journal, live)
        self.apply((), restore.deletes)
        self.apply(restore.puts, ())

    def apply(self, puts: Sequence[Put], deletes: Sequence[Delete]) -> None:
        sink, destination = self.sink, self.destination
        for some_puts in batches(puts, sink.capabilities):
            sink.write(destination, some_puts, self.mark())
        for some in batches(deletes, sink.capabilities):
            sink.delete(destination, some, self.owner, self.generation)

    def _intend(self, request: PlanRequest, plan: Plan) -> None:
        state = TargetState(
            commit="c" * 40,
            ref="refs/heads/main",
            rule_digest="r",
            generation=self.generation,
            at=NOW,
            task_id="t",
            keys=(keys := applied_keys(request, plan, DIGEST_KEY)),
            files=tuple(sorted({key.file for key in keys.values()})),
        )
        self.ledger = replace(self._ledger(), intent=Intent(state=state, journal="j"))

    def _settle(self, request: PlanRequest, plan: Plan) -> None:
        ledger = self._ledger()
        assert ledger.intent
        kept = retained_keys(plan, ledger, request.live, digest_key=DIGEST_KEY, now=NOW)
        self.ledger = replace(ledger, applied=ledger.intent.state, intent=None, retained=kept)

    def _ledger(self) -> Ledger:
        return self.ledger or Ledger(
            unit_id="u",
            rule_id=self.place.rule,
            tenant=self.place.tenant,
            platform="github",
            datasource=self.place.datasource,
            kind=self.destination.kind,
            repo=self.place.repo,
            env=self.place.env,
            destination=self.destination.name,
            destination_id=self.destination.id,
            digest_key_id="k",
        )


__all__ = ["DIGEST_KEY", "NOW", "PLACE", "SyncMode", "Unit", "prune"]
