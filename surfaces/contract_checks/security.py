"""Security schemes of a contract: whether a call brings credentials of the form that they want.

What the credentials are worth, a mock cannot know.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kernel.errors import FieldErrorDocument
from readers.json import escape_pointer
from surfaces.contract_checks.parameters import CallValues
from surfaces.json_documents import JsonDocuments, Located

MAX_ALTERNATIVES: Final = 20
_DIGEST: Final = ("username", "realm", "nonce", "uri", "response")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")


@dataclass(frozen=True, slots=True)
class Scheme:
    """`source` and `name` are where an API key is; otherwise `word` begins Authorization."""

    word: str = ""
    source: str = ""
    name: str = ""

    def error(self, call: CallValues) -> FieldErrorDocument | None:
        """Return what a call lacks."""
        if self.source:
            if self._key(call):
                return None
            pointer = f"/{self.source}/{escape_pointer(self.name)}"
            return {"pointer": pointer, "code": "required", "detail": "an API key is required"}
        word, _, credentials = call.headers.get("authorization", "").strip().partition(" ")
        credentials = credentials.strip()
        is_given = word.lower() == self.word.lower() and bool(credentials)
        if is_given and _HAS_FORM.get(self.word, bool)(credentials):
            return None
        code = "invalid_value" if word else "required"
        detail = f"{self.word} credentials are required"
        return {"pointer": "/header/Authorization", "code": code, "detail": detail}

    def _key(self, call: CallValues) -> str:
        if self.source == "header":
            return call.headers.get(self.name.lower(), "")
        fields = call.query if self.source == "query" else call.cookies
        return next(iter(fields.get(self.name, ())), "")

    @property
    def challenge(self) -> str:
        """Return the value of WWW-Authenticate."""
        if not self.source:
            return self.word if self.word == "Bearer" else f'{self.word} realm="mock"'
        return (
            f'ApiKey in="{self.source}", name="{self.name}"' if _NAME.match(self.name) else "ApiKey"
        )


def _is_basic(credentials: str) -> bool:
    try:
        return b":" in base64.b64decode(credentials, validate=True)
    except ValueError:
        return False


def _is_digest(credentials: str) -> bool:
    return all(f"{name}=" in credentials for name in _DIGEST)


_HAS_FORM: Final = {"Basic": _is_basic, "Digest": _is_digest}


class SecurityCheck:
    """What an operation requires: one of several alternatives, each with all of its schemes."""

    def __init__(self, documents: JsonDocuments, root: Located, operation: Located) -> None:
        owner = operation if isinstance(operation.get("security").value, list) else root
        named = root.get("components", "securitySchemes")
        listed = [
            (list(_schemes(documents, named, each)), not each)
            for each in owner.items("security")[:MAX_ALTERNATIVES]
            if isinstance(each, dict)
        ]
        # one that a mock cannot see, such as mutual TLS, makes no other one void
        self._alternatives = [schemes for schemes, is_none in listed if schemes or is_none]

    @property
    def checks_anything(self) -> bool:
        return bool(self._alternatives) and all(self._alternatives)

    def errors(self, call: CallValues) -> list[FieldErrorDocument]:
        """Return what the first alternative lacks; nothing if a call satisfies any."""
        missing: list[list[FieldErrorDocument]] = []
        for alternative in self._alternatives:
            found = [error for each in alternative if (error := each.error(call))]
            if not found:
                return []
            missing.append(found)
        return missing[0] if missing else []

    @property
    def challenges(self) -> str:
        listed = [each.challenge for alternative in self._alternatives for each in alternative]
        return ", ".join(dict.fromkeys(listed))


def _schemes(
    documents: JsonDocuments, named: Located, requirement: dict[str, object]
) -> Iterator[Scheme]:
    """Yield the schemes of a requirement; one that is not known asks for nothing."""
    for name in islice(requirement, MAX_ALTERNATIVES):
        place = documents.resolve(named.get(str(name)))
        kind, source = place.get("type").value, place.get("in").value
        key, word = place.get("name").value, str(place.get("scheme").value)
        if kind == "apiKey" and source in ("header", "query", "cookie") and isinstance(key, str):
            yield Scheme(source=source, name=key)
        elif kind in ("oauth2", "openIdConnect"):
            yield Scheme(word="Bearer")
        elif kind == "http" and _NAME.match(word):
            yield Scheme(word=word.capitalize())
