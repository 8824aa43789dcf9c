"""Profile files: their keys, checked with positions (reference: control-plane 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from apps.profiles.domain.profiles import (
    FOLDER,
    KEEP_MAX_MS,
    OBSERVABILITY,
    Env,
    Profile,
    SecretRef,
    with_chain_problem,
)
from kernel.durations import parse_duration_ms
from kernel.errors import FieldError
from kernel.ids import humanize, is_env_name, slug
from readers import Unreadable
from readers.diagnostics import nearest_advice
from readers.yaml import Node, read_yaml

EXTENSIONS: Final = (".yaml", ".yml")  # of the names of profile files, in any case
_KEYS: Final = (
    "name", "description", "default", "extendsId", "runtime", "modules", "observability",
    "secretRefs", "env", "services", "keepOnFailure",
)  # fmt: skip
_RUNTIME_KEYS: Final = ("suite", "repository", "profileFile")
_SECRET_KEYS: Final = ("key", "provider", "ref")
_NETWORK: Final = (
    "profiles cannot choose a network: each run has one of its own, where its steps reach each "
    "other by name"
)
_HOST: Final = "profiles cannot give steps access to the host"
_OWN_NETWORK: Final = "execution"  # the one mode of `network` that profiles may have
_OFF: Final = ("off", "disabled", "none", "false", "no")
_REFUSED: Final = {
    "networks": _NETWORK,
    "devices": f"{_HOST}: devices belong to the machine of the backend",
    "volumes": f"{_HOST}: steps share files in $PARTITA_WORKSPACE_DIR",
    "privileged": f"{_HOST}: steps run without privileges",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A profile file of a suite, from which its profile comes until a record replaces it."""

    profile: Profile
    text: str


def seeds_of(files: Mapping[str, bytes]) -> tuple[Seed, ...]:
    """Return the profile files of a suite by path; `files` are those of the package."""
    taken: set[str] = set()
    texts = {
        path: files[path].decode(errors="replace")
        for path in sorted(files)
        if is_profile_path(path)
    }
    return tuple(
        Seed(profile=read_profile(text, path=path, taken=taken), text=text)
        for path, text in texts.items()
    )


def profiles_of(files: Mapping[str, bytes]) -> tuple[Profile, ...]:
    """Return the profiles of a suite's files, the default first, then by file name."""
    return in_order([seed.profile for seed in seeds_of(files)])


def in_order(profiles: Sequence[Profile]) -> tuple[Profile, ...]:
    """Return the profiles with the problems of their chains, the default first, then by name."""
    chained = [with_chain_problem(profile, profiles) for profile in profiles]
    return tuple(sorted(chained, key=lambda profile: (not profile.default, profile.file_name)))


def is_profile_path(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == FOLDER and name.lower().endswith(EXTENSIONS)


def free_id(wanted: str, taken: set[str]) -> str:
    """Return the id, with -2, -3 … when it is taken."""
    candidates = [wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)


def read_profile(text: str, *, path: str, taken: set[str]) -> Profile:
    """Read a profile file and add its id to `taken`, the ids of the files read before."""
    file_name = path.rpartition("/")[2]
    stem = PurePosixPath(file_name).stem
    profile_id = free_id(slug(stem) or "profile", taken)
    taken.add(profile_id)
    label = humanize(stem) or file_name
    empty = Profile(profile_id=profile_id, file_name=file_name, label=label)
    reader = _ProfileReader(path)
    try:
        return reader.profile(read_yaml(text), empty)
    except Unreadable as error:
        return replace(empty, problem=reader.error(error))


def is_blank(value: Node) -> bool:
    """Return whether a value is null or a text of white space, which counts as not set."""
    return value.text is not None and (not value.text.strip() or value.is_null)


def keep_on_failure_ms(value: Node | None) -> int | None:
    """Return `keepOnFailure` in milliseconds, 0 for a word that means no, None if it is not set.

    Raise Unreadable.
    """
    if value is None or is_blank(value):
        return None
    if value.text is None:
        raise value.unreadable("keepOnFailure must be a time such as 30m, or no")
    text = value.text.strip()
    if text.lower() in (*_OFF, "0"):
        return 0
    try:
        keep_ms = parse_duration_ms(float(text) if text.isdecimal() else text)
    except ValueError as error:
        raise value.unreadable(f"keepOnFailure: {error}, or no") from None
    if keep_ms > KEEP_MAX_MS:
        raise value.unreadable("keepOnFailure: an environment is kept for at most 4h")
    return keep_ms


class _ProfileReader:
    """Reads the typed values of a file; raises Unreadable with the place of an invalid value."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.warnings: list[FieldError] = []

    def error(self, error: Unreadable) -> FieldError:
        return FieldError(
            pointer="/yaml",
            code="invalid_value",
            detail=error.reason,
            file=self.path,
            line=error.line,
            column=error.column,
        )

    def profile(self, root: Node, empty: Profile) -> Profile:
        if root.is_null:
            return empty
        if root.pairs is None:
            raise root.unreadable("a profile must be a mapping")
        self.refuse_unsupported(root, "")
        self.warn_of_unknown(root, _KEYS, "")
        runtime = self.mapping(root, "runtime", _RUNTIME_KEYS)
        observability = self.mapping(root, "observability", OBSERVABILITY)
        read = replace(
            empty,
            label=self.text(root, "name") or empty.label,
            description=self.text(root, "description"),
            default=self.flag(root, "default", absent=False),
            extends_id=self.text(root, "extendsId"),
            repository=self.text(runtime, "repository"),
            keep_on_failure_ms=keep_on_failure_ms(root.get("keepOnFailure")),
            modules=tuple(self.text_of(item) for item in self.items(root, "modules")),
            env=self.env(root),
            services=self.services(root),
            secret_refs=tuple(self.secret_ref(item) for item in self.items(root, "secretRefs")),
            observability={
                key: self.switch(key, value)
                for key in OBSERVABILITY
                if (value := observability.get(key)) is not None and not is_blank(value)
            },
        )
        for key in ("suite", "profileFile"):
            self.text(runtime, key)
        return replace(read, warnings=tuple(self.warnings))

    def refuse_unsupported(self, node: Node, where: str) -> None:
        """Raise Unreadable for a key that would change what steps can reach."""
        for key, value in node.pairs or []:
            if reason := _REFUSED.get(key.text or ""):
                raise key.unreadable(f'"{where}{key.text}": {reason}')
            if key.text == "network":
                self.check_network(key, value, where)

    def check_network(self, key: Node, value: Node, where: str) -> None:
        """Warn of `network: {mode: execution}`, which every run has; refuse other modes."""
        mode = value.get("mode") if value.pairs is not None else value
        is_set = mode is not None and not is_blank(mode)
        if mode is not None and is_set and (mode.text or "").strip().lower() != _OWN_NETWORK:
            named = f', not "{mode.text[:40]}"' if mode.text else ""
            raise mode.unreadable(
                f'"{where}network": {_NETWORK}; write mode: {_OWN_NETWORK}{named}, or remove it'
            )
        for other, _ in value.pairs or []:
            if other.text != "mode":
                raise other.unreadable(f'"{where}network.{other.text}": {_NETWORK}; remove it')
        self.warn(
            "no_effect",
            f'"{where}network" has no effect: each run has a network of its own; remove it',
            key,
        )

    def warn_of_unknown(self, node: Node, known: Sequence[str], where: str) -> None:
        for key, _ in node.pairs or []:
            name = key.text or ""
            if name not in known and name != "network":
                advice = nearest_advice(name, known)
                detail = f'"{where}{name}" is not a key of profiles and is ignored; {advice}'
                self.warn("unknown_key", detail, key)

    def warn(self, code: str, detail: str, at: Node) -> None:
        self.warnings.append(
            FieldError(code=code, detail=detail, file=self.path, line=at.line, column=at.column)
        )

    def text(self, node: Node, key: str) -> str:
        """Return a string, or another scalar as in the source; "" when absent or null."""
        value = node.get(key)
        return "" if value is None or value.is_null else self.text_of(value, key)

    def text_of(self, value: Node, key: str = "an entry") -> str:
        if value.text is None:
            raise value.unreadable(f"{key} must be a string")
        return value.text

    def flag(self, node: Node, key: str, *, absent: bool) -> bool:
        value = node.get(key)
        if value is None or is_blank(value):
            return absent
        found = value.scalar() if value.text is not None else None
        if not isinstance(found, bool):
            raise value.unreadable(f"{key} must be true or false")
        return found

    def switch(self, key: str, value: Node) -> bool:
        """Return whether a part of the observability is on: true, or a word that is none of off."""
        found = value.scalar() if value.text is not None else None
        if isinstance(found, bool):
            return found
        if not isinstance(found, str):
            raise value.unreadable(
                f"{key} must be true, false or a word such as structured; off, disabled, none and "
                "false turn it off"
            )
        return found.strip().lower() not in _OFF

    def items(self, node: Node, key: str) -> list[Node]:
        value = node.get(key)
        if value is None or is_blank(value):
            return []
        if value.items is None:
            raise value.unreadable(f"{key} must be a list")
        return value.items

    def mapping(self, node: Node, key: str, known: Sequence[str] | None = None) -> Node:
        value = node.get(key)
        if value is None or is_blank(value):
            return Node(line=node.line, column=node.column, pairs=[])
        if value.pairs is None:
            raise value.unreadable(f"{key} must be a mapping")
        if known is not None:
            self.warn_of_unknown(value, known, f"{key}.")
        return value

    def env(self, node: Node) -> Env:
        """Return source texts by name, None for null."""
        return {
            self.variable(name): self.env_value(name, value)
            for name, value in self.mapping(node, "env").pairs or []
        }

    def variable(self, name: Node) -> str:
        if not is_env_name(name.text or ""):
            raise name.unreadable(f'"{name.text}" is not a valid name for an environment variable')
        return name.text or ""

    def env_value(self, name: Node, value: Node) -> str | None:
        if value.text is None:
            raise value.unreadable(f"{name.text} must be a single value")
        if value.is_null:
            return None
        if "\0" in value.text:
            raise value.unreadable(f"{name.text} contains a NUL character")
        return value.text

    def services(self, root: Node) -> dict[str, Env]:
        found = {}
        for step, _ in self.mapping(root, "services").pairs or []:
            where = f"services.{step.text}"
            own = self.mapping(root.get("services") or root, step.text or "")
            self.refuse_unsupported(own, f"{where}.")
            self.warn_of_unknown(own, ("env",), f"{where}.")
            found[step.text or ""] = self.env(own)
        return found

    def secret_ref(self, item: Node) -> SecretRef:
        if item.pairs is None:
            raise item.unreadable("a secretRef must be a mapping of key, provider and ref")
        self.warn_of_unknown(item, _SECRET_KEYS, "secretRefs.")
        given = {name: self.text(item, name) for name in _SECRET_KEYS}
        for name, value in given.items():
            if not value:
                raise item.unreadable(f"a secretRef requires {name}")
        if not is_env_name(given["key"]):
            raise item.unreadable(
                f'"{given["key"]}" is not a valid name for an environment variable'
            )
        return SecretRef(**given)
