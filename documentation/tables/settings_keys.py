"""Keys of the platform settings: docs/tables/settings.md."""

from __future__ import annotations

from collections.abc import Iterator

from apps.platform_settings.domain.keys import GROUPS, Key, KeyGroup
from documentation.markdown import code, codes, table


def page() -> str:
    return (
        "# Settings keys\n\n"
        "The settings that administrators change on the page Settings, by `partita settings`, by the API, and in "
        "`configuration.yaml` ([how they fit together](../operations.md#settings)). What a process "
        "needs before it has them are [environment variables](environment.md).\n\n"
        f"{chr(10).join(map(chapter, GROUPS))}"
    )


def chapter(group: KeyGroup) -> str:
    heading = code(group.dotted) if group.path else "At the top"
    kind = f"A list; each entry has its own `{group.identity}`." if group.is_list else ""
    said = " ".join(filter(None, (kind, _as_sentence(group.note))))
    rows = [(code(key.name), _default(key), "; ".join(meaning(key))) for key in group.keys]
    words = f"{said}\n\n" if said else ""
    return f"## {heading}\n\n{words}{table(('Key', 'Default', 'Meaning'), rows)}"


def meaning(key: Key) -> Iterator[str]:
    """Yield what is declared of a key, in the order in which people ask for it."""
    facts = {
        key.note: True,
        f"one of {codes(key.choices)}": bool(key.choices),
        f"{key.low} to {key.high}": bool(key.high),
        "required": key.required,
        "a secret, which nobody reads back": key.secret,
        f"a secret if `{key.hidden_by}` is set": bool(key.hidden_by),
        "shown to administrators only": key.private,
        "a URL": key.address,
        "filled in by Partita": key.read_only,
    }
    yield from (words for words, holds in facts.items() if words and holds)


def _default(key: Key) -> str:
    if key.required or key.read_only:
        return ""
    if isinstance(key.default, bool):
        return code(str(key.default).lower())
    return codes(key.default) if isinstance(key.default, tuple) else code(key.default)


def _as_sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}." if note else ""
