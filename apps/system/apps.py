from __future__ import annotations

from django.apps import AppConfig

from kernel import background


class SystemConfig(AppConfig):
    name = "apps.system"
    label = "system"

    def ready(self) -> None:
        from apps.system.domain.lifecycle import lifespan_parts
        from apps.system.domain.probing import probes

        for name, part in (
            ("audit", "AuditRows"),
            ("metrics", "MetricsListener"),
            ("telemetry", "Telemetry"),
        ):
            lifespan_parts.register_path(name, f"apps.system.parts.{part}")
        for name in ("datastore", "cache", "telemetry", "background", "broker"):
            probes.register_path(name, f"apps.system.services.probing.{name.upper()}")
        background.observe(_count_failures)


def _count_failures(loop: str, failures: int) -> None:
    from apps.system import metrics

    metrics.count("partita.background.failures", failures, loop=loop)
