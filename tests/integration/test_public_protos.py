"""Protos of Google's APIs, as packages publish them: each service is listed, described and called.

The files of a package are a suite's only ones, unchanged; the client learns all by reflection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from surfaces import hydrate
from tests.support.grpc_mocks import REFLECTION_V1, content_of, grpc_mocks
from tests.support.npm import npm_files

IAM = (
    "google-gax",
    "6.17.0",
    *(f"iam/v1/{each}.proto" for each in ("iam_policy", "options", "policy")),
)
STORAGE = ("@google-cloud/storage-control", "0.8.2", "storage/v2/storage.proto",
           "storage/control/v2/storage_control.proto")  # fmt: skip
PUBSUB = ("@google-cloud/pubsub", "6.3.2", "pubsub/v1/pubsub.proto", "pubsub/v1/schema.proto")
OWN = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
       "grpc.reflection.v1alpha.ServerReflection"}  # fmt: skip
_SERVICE = re.compile(r"^service (\w+)", re.MULTILINE)
_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)


def of_npm(name: str, version: str, *paths: str) -> dict[str, str]:
    found = npm_files(name, version, *(f"build/protos/google/{path}" for path in paths))
    return {
        f"api/google/{path}": file.read_text("utf-8")
        for path, file in zip(paths, found, strict=True)
    }


def common_protos() -> dict[str, str]:
    """Return the files of googleapis-common-protos."""
    folder = Path(pytest.__file__).parents[1] / "google"
    return {
        f"api/google/{path.relative_to(folder)}": path.read_text("utf-8")
        for path in folder.rglob("*.proto")
    }


SUITES = {
    "googleapis-common-protos": common_protos,
    "google-cloud-storage": lambda: of_npm(*STORAGE) | of_npm(*IAM),
    "google-cloud-pubsub": lambda: of_npm(*PUBSUB),
}
LEAST = {"googleapis-common-protos": 2, "google-cloud-storage": 3, "google-cloud-pubsub": 3}


@pytest.fixture(params=SUITES)
def texts(request: Any) -> Mapping[str, str]:
    found: Mapping[str, str] = SUITES[request.param]()
    declared = services_in(found)
    assert len(declared) >= LEAST[request.param]
    return found


def services_in(texts: Mapping[str, str]) -> set[str]:
    return {
        f"{package}.{name}"
        for text in texts.values()
        for package in _PACKAGE.findall(text)
        for name in _SERVICE.findall(text)
    }


def test_they_are_read_without_a_warning(texts: Mapping[str, str]):
    files = {path: text.encode() for path, text in texts.items()}
    found = hydrate(files, suite_id="public", base_url="http://m")
    others = [each for each in found.warnings if each.code != "mock_duplicate_operation"]
    assert others == []
    operations = [each for surface in found.surfaces for each in surface.operations]
    assert {each.path.partition("/")[0] for each in operations} == services_in(texts)
    assert all(each.summary and each.contract_path in texts for each in operations)


async def test_a_client_that_knows_reflection_alone_calls_each_method(texts: Mapping[str, str]):
    async with grpc_mocks({"public": content_of("public", texts)}) as mocks:
        services = set(await mocks.services(path=REFLECTION_V1))
        assert services == services_in(texts) | OWN
        for name in sorted(services - OWN):
            pool = await mocks.files_of(name, path=REFLECTION_V1)
            methods = pool.FindServiceByName(name).methods
            assert methods
            for method in methods:
                called = await mocks.call(f"/{name}/{method.name}", filled(method.input_type))
                assert (method.full_name, called.code, called.details) == (
                    method.full_name, grpc.StatusCode.OK, "",
                )  # fmt: skip
                assert called.messages
            health = {"service": name}
            assert (await mocks.call("/grpc.health.v1.Health/Check", health)).message == {
                "status": "SERVING"
            }


def filled(message: Any) -> dict[str, Any]:
    """Return a request with its texts filled in."""
    return {
        field.json_name: "some-text"
        for field in message.fields
        if field.type == FieldDescriptor.TYPE_STRING
        and not field.is_repeated
        and not field.containing_oneof
    }
