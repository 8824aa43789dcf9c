"""The watcher's metrics, in a registry of their own; labels are the bundle's names or `other`."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from sync_stack.configuration.metrics import shared_text
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.drift import TargetStatus

OTHER: Final = "other"
HEAL_FAILURES: Final = ("call_error", "task_failed", "task_timeout", "still_drifted")
POLL_OUTCOMES: Final = ("ok", "error", "late")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """The facts of one target for the gauges."""

    datasource: str
    rule: str
    env: str
    status: TargetStatus
    drift_keys: int = 0
    foreign_keys: int = 0
    flapping: bool = False
    unhealed: bool = False


class WatcherMetrics:
    def __init__(self, *, version: str) -> None:
        self.registry = CollectorRegistry()
        self.drift = self._counter("drift", "Episodes of drift that began.", "datasource")
        self.heals = self._counter("heal", "Calls of TriggerSync.", "datasource")
        self.verified = self._counter(
            "heal_verified", "Heals after which the live state was equal.", "datasource"
        )
        self.failed = self._counter("heal_failed", "Heals that failed.", "datasource", "reason")
        self.polls = self._counter("poll", "Reads of targets.", "datasource", "outcome")
        self.poll_seconds = Histogram(
            "svc_watcher_poll_duration_seconds",
            "One cycle over the targets of a datasource.",
            ("datasource",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.targets = self._gauge("targets", "Targets by status.", "status")
        self.drift_keys = self._gauge("drift_keys", "Keys.", "datasource", "rule", "env")
        self.flapping = self._gauge("flapping", "Targets that flap.", "rule", "env")
        self.unhealed = self._gauge("unhealed", "Targets that 5 heals did not heal.", "rule", "env")
        self.foreign = self._gauge("foreign_keys", "Keys without an owner.", "datasource")
        self.last_poll = self._gauge("last_poll_timestamp_seconds", "Last cycle.", "datasource")
        self.leader = self._gauge("leader", "1 while this process polls.")
        self._gauge("build_info", "Always 1.", "version").labels(version).set(1)

    def expect(self, bundle: Bundle) -> None:
        """Start each counter at zero: a rate needs a value before the first event."""
        for name in {rule.datasource for rule in bundle.rules}:
            for counter in (self.drift, self.heals, self.verified):
                counter.labels(name)
            for reason in HEAL_FAILURES:
                self.failed.labels(name, reason)
            for outcome in POLL_OUTCOMES:
                self.polls.labels(name, outcome)

    def show(self, targets: Mapping[str, TargetFacts]) -> None:
        """Set the gauges of all targets; those that are gone leave no series."""
        for gauge in (self.drift_keys, self.flapping, self.unhealed, self.foreign):
            gauge.clear()
        shown = tuple(targets.values())
        statuses = Tally(target.status for target in shown)
        for status in TargetStatus:
            self.targets.labels(status.value).set(statuses[status])
        for target in shown:
            where = (target.rule, target.env)
            self.drift_keys.labels(target.datasource, *where).inc(target.drift_keys)
            self.flapping.labels(*where).inc(target.flapping)
            self.unhealed.labels(*where).inc(target.unhealed)
            self.foreign.labels(target.datasource).inc(target.foreign_keys)

    def text(self) -> bytes:
        return generate_latest(self.registry) + shared_text()

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"svc_watcher_{name}", words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, *labels: str) -> Gauge:
        return Gauge(f"svc_watcher_{name}", words, labels, registry=self.registry)


def env_label(bundle: Bundle, env: str) -> str:
    """Return the label of an environment; those from names of refs share one."""
    return env if env in _environments(bundle) else OTHER


def _environments(bundle: Bundle) -> set[str]:
    names = {"default"}
    for rule in bundle.rules:
        names |= {*rule.branch_map.values(), *rule.environments, rule.default_env}
        names |= {entry.env for entry in rule.file_path_map}
    return names - {""}
