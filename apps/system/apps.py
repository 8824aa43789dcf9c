from __future__ import annotations

from django.apps import AppConfig

from kernel import background


class SystemConfig(AppConfig):
    name = "apps.system"
    label = "system"

    def ready(self) -> None:
        from apps.system.domain.lifecycle import lifespan_parts
        from apps.system.domain.probing import Probe, probes
        from apps.system.parts import AuditRows, MetricsListener, Telemetry
        from apps.system.services import probing
        from apps.system.services.quick_redis import shared_redis

        lifespan_parts.register("audit")(AuditRows())
        lifespan_parts.register("metrics")(MetricsListener())
        lifespan_parts.register("telemetry")(Telemetry())
        for name, required, check in (
            ("datastore", True, probing.check_datastore),
            ("cache", False, probing.check_cache),
            ("telemetry", False, probing.check_telemetry),
            ("background", True, probing.check_background),
            ("broker", False, probing.check_broker),
        ):
            probes.register(name)(Probe(name, required, check))
        background.observe(_count_failures)
        shared_redis()  # where there is one, its library is imported now and not in a request


def _count_failures(loop: str, failures: int) -> None:
    from apps.system import metrics

    metrics.count("partita.background.failures", failures, loop=loop)
