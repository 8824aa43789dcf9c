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
print([name for name in ("redis", "twisted", "opentelemetry.sdk") if name in sys.modules])
"""


def slow_libraries(redis_address: str, command: str = "check") -> str:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
        "REDIS_ADDR": redis_address,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "",
    }
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, command],
        cwd=ROOT, env=environment, capture_output=True, check=True,
    )  # fmt: skip
    return told.stdout.decode()


def test_without_redis_and_a_collector_neither_library_is_imported():
    """They take longer to import than anything else, in every command; nor is Twisted."""
    assert slow_libraries("").strip() == "[]"


def test_with_a_redis_its_library_is_there_before_the_first_request():
    """To import it would hold up the event loop."""
    assert "'redis'" in slow_libraries("127.0.0.1:1")


def test_runserver_has_the_server_of_daphne():
    assert slow_libraries("", "runserver").strip() == "['twisted']"


COMMAND = """
import sys, django
from django.core.management import ManagementUtility
django.setup()
command = ManagementUtility().fetch_command(sys.argv[1])
command.create_parser("manage.py", sys.argv[1])
print(sorted({name.split(".")[0] for name in sys.modules} & set(sys.argv[2:])))
print([name for name in ("rest_framework.views",) if name in sys.modules])
"""
LIBRARIES = [
    "amqp", "boto3", "celery", "cryptography", "docker", "grpc", "httpx", "jwt", "kombu",
    "opentelemetry", "psycopg", "pymongo", "redis", "requests", "storages", "urllib3", "uvicorn",
]  # fmt: skip


@pytest.mark.parametrize("command", ["artifacts", "suite"])
def test_a_plain_command_imports_no_library_that_it_does_not_need(command: str) -> None:
    """Each takes a tenth of a second or more; what needs one of them imports it when it runs."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
        "REDIS_ADDR": "",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "",
    }
    told = subprocess.run(
        [sys.executable, "-c", COMMAND, command, *LIBRARIES],
        cwd=ROOT, env=environment, capture_output=True, check=True,
    )  # fmt: skip
    assert told.stdout.decode().split("\n")[:2] == ["[]", "[]"]


SERVER = """
import sys, django
django.setup()
import platform_site.asgi
print(sorted({name.split(".")[0] for name in sys.modules} & {"boto3", "botocore", "storages"}))
"""


def test_a_server_without_a_bucket_imports_no_library_of_s3(tmp_path: Path) -> None:
    for storage in ("store", "disk"):
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
            "ARTIFACT_STORAGE": storage,
            "DATA_DIR": str(tmp_path),
            "REDIS_ADDR": "",
        }
        printed = subprocess.run(
            [sys.executable, "-c", SERVER],
            cwd=ROOT, env=environment, capture_output=True, check=True,
        )  # fmt: skip
        assert printed.stdout.decode().strip() == "[]"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("s4://reports", "ARTIFACT_STORAGE='s4://reports': expected store, disk"),
        ("s3://reports?regoin=eu", "unknown parameter 'regoin'; did you mean region?"),
    ],
)
def test_a_wrong_storage_of_artifacts_stops_the_start(value: str, sentence: str) -> None:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.test",
        "ARTIFACT_STORAGE": value,
    }
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT, env=environment, capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    assert sentence in ended.stderr.decode()
