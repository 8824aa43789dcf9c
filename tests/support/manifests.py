"""The Kubernetes manifests of examples/deploy, as text, and rendered where programs can."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support import parts
from tests.support.processes import ROOT

FOLDER: Final = ROOT / "examples" / "deploy" / "kubernetes"
BASE: Final = FOLDER / "base"
STORES: Final = FOLDER / "overlays" / "with-stores"
CHART: Final = FOLDER / "chart"
GUIDE: Final = ROOT / "docs" / "guides" / "kubernetes.md"
Object = dict[str, Any]
Key = tuple[str, str]  # kind, name
_HASH: Final = re.compile(r"^(partita(?:-platform-settings)?)-[a-z0-9]{10}$")


def need_program(name: str) -> str:
    """Return the path of a program that only clusters need; without it the test is skipped.

    It fails where CI is set and has a cluster: what builds the one builds the other.
    """
    if found := shutil.which(name):
        return found
    sentence = f"needs the program {name} in PATH (make kubernetes)"
    if os.environ.get("CI") and parts.address("TEST_KUBECONFIG"):
        pytest.fail(sentence)
    pytest.skip(sentence)


def written_objects(folder: Path) -> list[Object]:
    """Return the objects of the resources that a kustomization lists, without those below it."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [
        each
        for name in listed
        if name.endswith(".yaml")
        for each in yaml.safe_load_all((folder / name).read_text())
    ]


def render_kustomization(folder: Path, namespace: str, overlay: Path) -> dict[Key, Object]:
    """Return the objects as an overlay, which is written, has them in a namespace."""
    resources = [os.path.relpath(folder, overlay.resolve())]
    text = yaml.safe_dump({"namespace": namespace, "resources": resources})
    (overlay / "kustomization.yaml").write_text(text)
    return _by_key(_run([need_program("kubectl"), "kustomize", str(overlay)]))


def render_chart(namespace: str, **values: str) -> dict[Key, Object]:
    """Return the objects of the chart; `values`: those that differ from values.yaml."""
    command = [need_program("helm"), "template", "partita", str(CHART), "--namespace", namespace]
    for name, value in values.items():
        command += ["--set", f"{name.replace('__', '.')}={value}"]
    return _by_key(_run(command))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _by_key(text: str) -> dict[Key, Object]:
    """Return the objects without what the two ways of rendering do in ways of their own."""
    found: Iterable[Object] = filter(None, yaml.safe_load_all(text))
    objects = [_without_own_ways(each) for each in found]
    keys = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(keys)) == len(keys), keys
    return dict(zip(keys, objects, strict=True))


def _without_own_ways(value: Any) -> Any:
    """Drop hashes in names, checksums, the namespace of an object and a default policy of pulls."""
    if isinstance(value, Mapping):
        pairs = {key: _without_own_ways(item) for key, item in value.items()}
        if "kind" in pairs and "metadata" in pairs:
            pairs["metadata"].pop("namespace", None)
        if set(pairs.get("annotations", ())) == {"checksum/settings"}:
            del pairs["annotations"]
        if pairs.get("imagePullPolicy") == "IfNotPresent":
            del pairs["imagePullPolicy"]
        return pairs
    if isinstance(value, list):
        return [_without_own_ways(each) for each in value]
    hashed = _HASH.match(value) if isinstance(value, str) else None
    return hashed[1] if hashed else value


def pod_specs(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", ()), *spec["containers"]]
