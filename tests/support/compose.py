"""docker-compose.yml as Compose reads it: anchors merged, variables put in; nothing is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.processes import ROOT

FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:?[-?])([^}]*))?\}|(\w+))")


class MissingVariable(Exception):
    """`${NAME:?words}` without a value, as Compose says it."""


@dataclass(frozen=True)
class Mount:
    """`source` is a volume's name, or with `bind` a path."""

    source: str
    target: str
    read_only: bool = False
    bind: bool = False


def services(variables: Mapping[str, str]) -> dict[str, Any]:
    """Name → definition, with the operator's variables in it. Raises MissingVariable."""
    document = yaml.safe_load(FILE.read_text())
    return dict(filled_in(document["services"], variables))


def filled_in(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found, variables), value)
    if isinstance(value, Mapping):
        return {key: filled_in(item, variables) for key, item in value.items()}
    return [filled_in(item, variables) for item in value] if isinstance(value, list) else value


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    dollar, braced, operator, word, bare = found.groups()
    if dollar:
        return "$"
    name = braced or bare
    given = variables.get(name)
    absent = given is None or (not given and (operator or "").startswith(":"))
    if not absent:
        return str(given)
    if (operator or "").endswith("?"):
        raise MissingVariable(f"required variable {name} is missing a value: {word}")
    return word or ""


def mounts(service: Mapping[str, Any]) -> list[Mount]:
    return [_mount(each) for each in service["volumes"]]


def _mount(given: Any) -> Mount:
    if isinstance(given, str):
        source, target, *more = given.split(":")
        return Mount(source=source, target=target, read_only="ro" in more)
    return Mount(
        source=given["source"],
        target=given["target"],
        read_only=given.get("read_only", False),
        bind=given["type"] == "bind",
    )


def ignored_by_docker(path: str, rules: Path = ROOT / ".dockerignore") -> bool:
    """Whether `.dockerignore`, all but a list of folders, keeps a path from the builder."""
    kept = [line[1:] for line in rules.read_text().splitlines() if line.startswith("!")]
    return not any(path == each or path.startswith(f"{each}/") for each in kept)
