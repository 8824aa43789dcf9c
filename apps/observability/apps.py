from __future__ import annotations

from django.apps import AppConfig

from apps.observability import metrics
from kernel import background


class ObservabilityConfig(AppConfig):
    name = "apps.observability"
    label = "observability"

    def ready(self) -> None:
        background.observe(_count_failures)


def _count_failures(loop: str, failures: int) -> None:
    metrics.count("partita.background.failures", failures, loop=loop)
