"""Secrets out of text: each value, and the forms in which programs print it, becomes `***`.

A masked text never holds a value whole; a stream of pieces is masked across their borders by
keeping back what may be the beginning of a value (`Redactor.split`).
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"
MIN_SECRET: Final = 4  # characters from which on a value is registered
_MOST_SECRETS: Final = 10_000  # of one register; the oldest leave
_SHORTEST_LINE: Final = 4  # of a value of several lines: shorter lines, such as "}", say nothing


class Redactor:
    """Masks a fixed set of secret values; without values it returns texts as they are."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        self._forms = sorted(
            forms, key=len, reverse=True
        )  # the longest first: one may hold another
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def split(self, text: str) -> tuple[str, str]:
        """`(masked, rest)`: `rest` is the longest end of `text` that a value may begin with.

        Put `rest` in front of the next piece of the same stream; at its end, `mask` it.
        """
        if self._pattern is None:
            return text, ""
        done, last = [], 0
        for match in self._pattern.finditer(text):
            done += [text[last : match.start()], MASK]
            last = match.end()
        rest = self._possible_start(text[last:])
        done.append(text[last : len(text) - len(rest)])
        return "".join(done), rest

    def _possible_start(self, text: str) -> str:
        longest = max(map(len, self._forms)) - 1
        for size in range(min(longest, len(text)), 0, -1):
            end = text[-size:]
            if any(form.startswith(end) for form in self._forms):
                return end
        return ""


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


known_secrets: Final = SecretRegister()  # of this process


def _forms(secret: str) -> set[str]:
    if not secret.strip():
        return set()
    lines = [line for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE]
    encoded = secret.encode()
    forms = {
        secret,
        secret.strip(),
        *lines,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
    }
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {encoded.hex(), encoded.hex().upper()}
    for code in (base64.b64encode(encoded), base64.urlsafe_b64encode(encoded)):
        forms |= {code.decode(), code.decode().rstrip("=")}
    return forms
