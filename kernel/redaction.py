"""Secrets out of text: each value, and the forms in which programs print it, becomes `***`.

A masked text never holds a value whole; a stream of pieces is masked across their borders by
keeping back what may be the beginning of a value (`Redactor.split`).
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"
MIN_SECRET: Final = 4  # characters from which on a value is registered
_MOST_SECRETS: Final = 10_000  # of one register; the oldest leave
_HEAD: Final = 2  # characters by which forms are found
_SHORTEST_INSIDE: Final = 6  # bytes of a value that is searched inside other base64
_SHORTEST_LINE: Final = 4  # of a value of several lines: shorter lines, such as "}", say nothing


_ESCAPE: Final = re.compile("%[0-9A-F]{2}")


class Redactor:
    """Masks a fixed set of secret values; without values it returns texts as they are."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        self._longest = max(map(len, forms), default=0)
        # the longest first: one may hold another
        self._heads = _by_head(sorted(forms, key=len, reverse=True))
        self._firsts = {head[:1] for head in self._heads}

    def __bool__(self) -> bool:
        return bool(self._heads)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The forms as a pattern, whose compilation takes most of the time to make a redactor."""
        return re.compile(_alternatives(self._heads))

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._heads else text

    def split(self, text: str) -> tuple[str, str]:
        """`(masked, rest)`: `rest` is the longest end of `text` that a value may begin with.

        Put `rest` in front of the next piece of the same stream; at its end, `mask` it.
        """
        if not self._heads:
            return text, ""
        done, last = [], 0
        for match in self._pattern.finditer(text):
            done += [text[last : match.start()], MASK]
            last = match.end()
        rest = self._possible_start(text[last:])
        done.append(text[last : len(text) - len(rest)])
        return "".join(done), rest

    def _possible_start(self, text: str) -> str:
        end = len(text)
        for start in range(max(0, end - self._longest + 1), end - 1):
            forms = self._heads.get(text[start : start + _HEAD])
            if forms and any(form.startswith(text[start:]) for form in forms):
                return text[start:]
        return text[-1:] if text[-1:] in self._firsts else ""


class SecretRegister:
    """Secrets that become known while a process runs; masks all of them in every text."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._redactor = Redactor(())
        self._adding = threading.Lock()

    def add(self, *secrets: str) -> None:
        """Values under 4 characters are left out: masking them would hide every text."""
        with self._adding:
            new = [text for text in secrets if len(text) >= MIN_SECRET and text not in self._known]
            if not new:
                return
            self._known |= dict.fromkeys(new)
            for oldest in list(self._known)[:-_MOST_SECRETS]:
                del self._known[oldest]
            self._redactor = Redactor(self._known)

    def mask(self, text: str) -> str:
        return self._redactor.mask(text)


def _by_head(forms: Iterable[str]) -> dict[str, list[str]]:
    heads: dict[str, list[str]] = {}
    for form in forms:
        heads.setdefault(form[:_HEAD], []).append(form)
    return heads


def _alternatives(heads: Mapping[str, Iterable[str]]) -> str:
    """Return a pattern of all forms in two steps: few alternatives are tried at any place."""
    firsts: dict[str, list[str]] = {}
    for head, forms in heads.items():
        rests = "|".join(re.escape(form[_HEAD:]) for form in forms)
        firsts.setdefault(head[:1], []).append(f"{re.escape(head[1:])}(?:{rests})")
    return "|".join(
        f"{re.escape(first)}(?:{'|'.join(seconds)})" for first, seconds in firsts.items()
    )


@lru_cache(maxsize=_MOST_SECRETS)  # a register is made anew with each secret that is added
def _forms(secret: str) -> frozenset[str]:
    """Return the texts in which programs print a value."""
    if not secret.strip():
        return frozenset()
    lines = {line for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    encoded = secret.encode()
    forms = {secret, secret.strip(), *lines, *_escapes(secret), *_percent_encodings(secret)}
    forms |= {encoded.hex(), encoded.hex().upper(), *_base64(encoded)}
    return frozenset(form for form in forms if len(form) >= _HEAD)


def _escapes(secret: str) -> Iterator[str]:
    """Yield the value inside strings of JSON, also twice, of HTML, XML and a shell."""
    for once in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once)[1:-1]
    yield repr(secret)[1:-1]
    yield secret.replace("'", "'\\''")
    marked = html.escape(secret, quote=False)
    yield from (marked, html.escape(secret), marked.replace('"', "&quot;"))
    yield marked.replace('"', "&#34;").replace("'", "&#39;")


def _percent_encodings(secret: str) -> Iterator[str]:
    """Yield the value in addresses and forms, as different libraries write it."""
    everything = "".join(f"%{byte:02X}" for byte in secret.encode())
    script = "!'()*~"  # what encodeURIComponent leaves
    for safe in ("", "/", script, f"{script};,/?:@&=+$#"):
        yield quote(secret, safe=safe)
    yield quote_plus(secret)
    yield everything
    for upper in [
        everything,
        *(quote(secret, safe=safe) for safe in ("", "/")),
        quote_plus(secret),
    ]:
        yield _ESCAPE.sub(lambda found: found[0].lower(), upper)


def _base64(secret: bytes) -> Iterator[str]:
    """Yield the value in base64 and base64url, also from within a longer text."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        code = encode(secret).decode()
        yield from (code, code.rstrip("="))
        if len(secret) >= _SHORTEST_INSIDE:
            for offset in range(3):
                # the characters that come of the value alone, whatever stands around it
                first, end = -(-offset * 8 // 6), (offset + len(secret)) * 8 // 6
                yield encode(b"\0" * offset + secret).decode()[first:end]


known_secrets: Final = SecretRegister()  # of this process
