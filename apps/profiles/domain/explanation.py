"""Where each value of a merged profile comes from (reference: control-plane 10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.profiles.domain.profiles import OBSERVABILITY, Profile, chain_of


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one origin, such as a profile; later layers win. None unsets a value."""

    origin: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedValue:
    """A value with its origin, and the (origin, value) pairs that it replaced, the last first."""

    section: str
    key: str
    value: str
    origin: str
    replaced: tuple[tuple[str, str], ...] = ()


def explain_chain(profiles: Sequence[Profile], profile: Profile) -> list[ExplainedValue]:
    """Explain the values of the merged profile, by section; raise ProfileInvalid."""
    chain = chain_of(profiles, profile)
    steps = dict.fromkeys(step for link in chain for step in link.services)
    sections: dict[str, list[Layer]] = {"env": [Layer(link.file_name, link.env) for link in chain]}
    for step in steps:
        sections[f"services.{step}.env"] = [
            Layer(link.file_name, link.services.get(step, {})) for link in chain
        ]
    sections["secretRefs"] = [Layer(link.file_name, _references(link)) for link in chain]
    sections["observability"] = [Layer("by default", dict.fromkeys(OBSERVABILITY, "true"))]
    sections["observability"] += [Layer(link.file_name, _flags(link)) for link in chain]
    sections["modules"] = [Layer(link.file_name, dict.fromkeys(link.modules, "")) for link in chain]
    return [each for name, layers in sections.items() for each in explain_section(name, layers)]


def env_layers(chain: Iterable[Profile]) -> list[Layer]:
    """Return what each profile says of every step, without what later ones unset."""
    return _drop_unset(Layer(link.file_name, link.env) for link in chain)


def service_layers(chain: Iterable[Profile], step: str) -> list[Layer]:
    """Return what each profile says of one step, without what later ones unset."""
    return _drop_unset(
        Layer(f"{link.file_name} services.{step}", link.services.get(step, {})) for link in chain
    )


def _drop_unset(layers: Iterable[Layer]) -> list[Layer]:
    found: list[tuple[str, dict[str, str | None]]] = []
    for layer in layers:
        unset = [key for key, value in layer.values.items() if value is None]
        for _, values in found:
            for key in unset:
                values.pop(key, None)
        found.append((layer.origin, {k: v for k, v in layer.values.items() if v is not None}))
    return [Layer(origin, values) for origin, values in found]


def explain_section(section: str, layers: Iterable[Layer]) -> Iterator[ExplainedValue]:
    """Yield the value of each key by name, unless a layer unset it last."""
    history: dict[str, list[tuple[str, str | None]]] = {}
    for layer in layers:
        for key, value in layer.values.items():
            history.setdefault(key, []).append((layer.origin, value))
    for key, entries in sorted(history.items()):
        origin, value = entries[-1]
        if value is not None:
            replaced = tuple((was, text or "") for was, text in reversed(entries[:-1]))
            yield ExplainedValue(
                section=section, key=key, value=value, origin=origin, replaced=replaced
            )


def _references(profile: Profile) -> dict[str, str | None]:
    return {each.key: f"{each.provider}: {each.ref}" for each in profile.secret_refs}


def _flags(profile: Profile) -> dict[str, str | None]:
    return {key: str(on).lower() for key, on in profile.observability.items()}
