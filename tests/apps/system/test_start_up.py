"""What a process pays for as it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys, django
django.setup()
import apps.workers.api, platform_site.asgi
print([name for name in sys.modules if name == "redis" or name.startswith("opentelemetry.sdk")])
"""


def slow_libraries(redis_address: str) -> str:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
        "REDIS_ADDR": redis_address,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "",
    }
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    return told.stdout.decode()


def test_without_redis_and_a_collector_neither_library_is_imported():
    """They take longer to import than anything else, in every command."""
    assert slow_libraries("").strip() == "[]"


def test_with_a_redis_its_library_is_there_before_the_first_request():
    """To import it would hold up the event loop."""
    assert "'redis'" in slow_libraries("127.0.0.1:1")
