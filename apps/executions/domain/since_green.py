"""What differs between a run and the last Healthy run of its suite before it.

Pure. Values of variables never come here: they are compared by hashes that leave this comparison
as little as the values do (reference: control-plane 11.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict, TypeVar

MAX_DIFFERENCES: Final = 200
SLOWER_BY: Final = 1.5  # a factor
SLOWER_BY_MS: Final = 1_000
DIGEST_CHARACTERS: Final = 19  # that people are shown: `sha256:` and 12 digits
Change = Literal["added", "removed", "changed"]
Name = TypeVar("Name", str, tuple[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run as it is compared.

    `imports` has the digest of each imported suite by its id; `env` the hash of each variable by
    where it is set and its name; `images` and `took_ms` are by step id, the latter without services
    and mocks, which last as long as the run.
    """

    content_digest: str = ""
    profile: str = ""
    backend: str = ""
    author: str = ""
    commit: str = ""
    branch: str = ""
    steps: frozenset[str] = frozenset()
    imports: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[tuple[str, str], str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    took_ms: Mapping[str, int] = field(default_factory=dict)


class _BothSides(TypedDict, total=False):
    """What can be shown of both runs; a variable has neither."""

    where: str
    before: str
    after: str
    beforeMs: int
    afterMs: int


class RunDifference(_BothSides):
    """One difference, as on the wire; `name` is that of an import, a variable or a step."""

    kind: str
    name: str
    change: Change


def run_differences(green: ComparedRun, own: ComparedRun) -> list[RunDifference]:
    """Return what differs, what is most likely at fault first, then by name."""
    facts = {
        "content": (green.content_digest, own.content_digest),
        "profile": (green.profile, own.profile),
        "backend": (green.backend, own.backend),
        "commit": (green.commit, own.commit),
        "branch": (green.branch, own.branch),
        "author": (green.author, own.author),
    }
    single = {
        kind: _texts(kind, {"": before} if before else {}, {"": after} if after else {})
        for kind, (before, after) in facts.items()
    }
    return [
        *single["content"],
        *_texts("import", green.imports, own.imports),
        *single["profile"],
        *_variables(green.env, own.env),
        *_steps(green.steps, own.steps),
        *_texts(
            "image", *(_images_of_both(each, green, own) for each in (green.images, own.images))
        ),
        *_durations(green.took_ms, own.took_ms),
        *(each for kind in ("backend", "commit", "branch", "author") for each in single[kind]),
    ]


def difference_name(difference: RunDifference) -> str:
    """Return what differs, in words, such as `image of db` or `env REGION (profile)`."""
    kind, name = difference["kind"], difference["name"]
    names = {
        "content": "files of the suite",
        "import": f"import {name}",
        "env": f"env {name} ({difference.get('where', '')})",
        "image": f"image of {name}",
        "duration": f"duration of {name}",
        "step": f"step {name}",
    }
    return names.get(kind, kind)


def difference_sides(difference: RunDifference) -> tuple[str, str]:
    """Return what people read of the healthy run and of the other one; never a value of env."""
    change, kind = difference["change"], difference["kind"]
    if "beforeMs" in difference and "afterMs" in difference:
        return f"{difference['beforeMs'] / 1000:.1f} s", f"{difference['afterMs'] / 1000:.1f} s"
    there = {"env": "set", "step": "there"}.get(kind, "")
    before = _clip_digest(difference.get("before", there)) if change != "added" else ""
    after = _clip_digest(difference.get("after", there)) if change != "removed" else ""
    if kind == "env" and change == "changed":
        after = "another value"
    absent = {"env": "not set", "step": "not there"}.get(kind, "none")
    return before or absent, after or absent


def _clip_digest(text: str) -> str:
    return text[:DIGEST_CHARACTERS] if text.startswith("sha256:") else text


def _images_of_both(
    images: Mapping[str, str], green: ComparedRun, own: ComparedRun
) -> dict[str, str]:
    """Leave out the images of steps that only one run has: the step is the difference."""
    both = green.steps & own.steps
    return {step: image for step, image in images.items() if step in both}


def _texts(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[RunDifference]:
    found: list[RunDifference] = []
    for name, change in _changes(before, after):
        entry: RunDifference = {"kind": kind, "name": name, "change": change}
        if name in before:
            entry["before"] = before[name]
        if name in after:
            entry["after"] = after[name]
        found.append(entry)
    return found


def _variables(
    before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> list[RunDifference]:
    return [
        {"kind": "env", "name": name, "change": change, "where": where}
        for (where, name), change in _changes(before, after)
    ]


def _steps(before: frozenset[str], after: frozenset[str]) -> list[RunDifference]:
    one_side = sorted(before ^ after)
    return [
        {"kind": "step", "name": step, "change": "added" if step in after else "removed"}
        for step in one_side
    ]


def _durations(before: Mapping[str, int], after: Mapping[str, int]) -> list[RunDifference]:
    return [
        {
            "kind": "duration",
            "name": step,
            "change": "changed",
            "beforeMs": before[step],
            "afterMs": after[step],
        }
        for step in sorted(before.keys() & after.keys())
        if is_notable(before[step], after[step])
    ]


def is_notable(before_ms: int, after_ms: int) -> bool:
    """Return whether a duration changed by more than a factor of 1.5 and by more than 1 s."""
    less, more = sorted((before_ms, after_ms))
    return more > less * SLOWER_BY and more - less > SLOWER_BY_MS


def _changes(before: Mapping[Name, str], after: Mapping[Name, str]) -> list[tuple[Name, Change]]:
    found: list[tuple[Name, Change]] = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            found.append((name, "added"))
        elif name not in after:
            found.append((name, "removed"))
        elif before[name] != after[name]:
            found.append((name, "changed"))
    return found
