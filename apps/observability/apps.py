from __future__ import annotations

from django.apps import AppConfig

from kernel import background


class ObservabilityConfig(AppConfig):
    name = "apps.observability"
    label = "observability"

    def ready(self) -> None:
        background.observe(_count_failures)


def _count_failures(loop: str, failures: int) -> None:
    from apps.observability import metrics

    metrics.count("partita.background.failures", failures, loop=loop)
