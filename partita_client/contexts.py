"""The servers that a user has signed in to, in one file that only this user can read.

    {"current": "team", "contexts": {"team": {"url": "https://…", "token": "…", "user": "ada@…"}}}

A token is in the keyring of the system instead where the module `keyring` is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from partita_client import conf
from partita_client.errors import BadConfiguration

_SERVICE: Final = "partita"
_IN_KEYRING: Final = "keyring"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContext:
    """A server with the token for it. `user` is who signed in, for people to read.

    `token_id` is there for a token that this login made, so that a logout can revoke it.
    """

    name: str
    url: str
    token: str = field(default="", repr=False)
    ca_file: str = ""
    user: str = ""
    token_id: str = ""
    is_in_keyring: bool = False

    @property
    def document(self) -> Mapping[str, str]:
        kept = {"url": self.url, "caFile": self.ca_file, "user": self.user}
        kept["tokenId"] = self.token_id
        kept |= {"tokenIn": _IN_KEYRING} if self.is_in_keyring else {"token": self.token}
        return {name: value for name, value in kept.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContexts:
    current: str = ""
    contexts: Mapping[str, SavedContext] = field(default_factory=dict)


def read_contexts() -> SavedContexts:
    """Return what the file holds, nothing where there is none; raise BadConfiguration."""
    file = conf.config_file()
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return SavedContexts()
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be read: {error.strerror}") from None
    try:
        document = json.loads(content)
        contexts = {name: _context_of(name, each) for name, each in document["contexts"].items()}
        return SavedContexts(current=str(document.get("current", "")), contexts=contexts)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadConfiguration(
            f"{file} is damaged ({type(error).__name__}: {error})",
            advice=f"fix it, or remove it and sign in again: rm {file}",
        ) from None


def _context_of(name: str, document: Mapping[str, Any]) -> SavedContext:
    return SavedContext(
        name=name,
        url=str(document["url"]),
        token=str(document.get("token", "")),
        ca_file=str(document.get("caFile", "")),
        user=str(document.get("user", "")),
        token_id=str(document.get("tokenId", "")),
        is_in_keyring=document.get("tokenIn") == _IN_KEYRING,
    )


def find_context(name: str) -> SavedContext:
    """Return a context by its name; raise BadConfiguration, which names those that there are."""
    known = read_contexts().contexts
    if name not in known:
        names = ", ".join(sorted(known)) or "none; partita login URL makes one"
        raise BadConfiguration(f"there is no context {name!r}", advice=f"known: {names}")
    return known[name]


def token_of(context: SavedContext) -> str:
    """Return the token, from the keyring if it is there; raise BadConfiguration."""
    if not context.is_in_keyring:
        return context.token
    keyring = _keyring()
    if keyring is None:
        raise BadConfiguration(
            f"the token of the context {context.name} is in the keyring, but {_why_no_keyring()}",
            advice=f"partita login {context.url}, or PARTITA_URL and PARTITA_TOKEN",
        )
    try:
        return cast("str | None", keyring.get_password(_SERVICE, _keyring_name(context))) or ""
    except keyring.errors.KeyringError as error:
        raise BadConfiguration(
            f"the keyring does not give the token of the context {context.name}: {error}",
            advice="unlock it; else PARTITA_URL and PARTITA_TOKEN, or PARTITA_KEYRING=off partita "
            f"login {context.url}",
        ) from None


def require_name(name: str) -> str:
    """Return the name of a context; raise BadConfiguration for what is none."""
    if not _NAME.fullmatch(name):
        raise BadConfiguration(
            f"{name!r} is not a name for a context",
            advice="letters, digits, '.', '_' and '-': --name NAME",
        )
    return name


def save_context(
    context: SavedContext, *, on_no_keyring: Callable[[str], None] = lambda _why: None
) -> SavedContext:
    """Store a context and make it the current one; return it as it was stored.

    The token is in the file where the keyring does not take it; `on_no_keyring` is told why.
    """
    require_name(context.name)
    keyring = _keyring()
    if keyring is not None:
        try:
            keyring.set_password(_SERVICE, _keyring_name(context), context.token)
            context = replace(context, is_in_keyring=True)
        except keyring.errors.KeyringError as error:
            on_no_keyring(str(error))
    with _change_contexts() as contexts:
        contexts["current"] = context.name
        contexts["contexts"][context.name] = context.document
    return context


def use_context(name: str) -> None:
    """Make a context the current one; raise BadConfiguration."""
    find_context(name)
    with _change_contexts() as contexts:
        contexts["current"] = name


def remove_context(name: str) -> SavedContext:
    """Forget a context and its token; return what it was; raise BadConfiguration."""
    context = find_context(name)
    if context.is_in_keyring and (keyring := _keyring()) is not None:
        with contextlib.suppress(keyring.errors.KeyringError):
            keyring.delete_password(_SERVICE, _keyring_name(context))
    with _change_contexts() as contexts:
        contexts["contexts"].pop(name, None)
        if contexts["current"] == name:
            contexts["current"] = ""
    return context


def _keyring_name(context: SavedContext) -> str:
    return f"{context.name} {context.url}"


def _why_no_keyring() -> str:
    if _is_keyring_off():
        return "PARTITA_KEYRING is off"
    if importlib.util.find_spec("keyring") is None:
        return "the module keyring is not installed here"
    return "this session has no keyring"


def _is_keyring_off() -> bool:
    return conf.variable("PARTITA_KEYRING") == "off"


def _keyring() -> Any:
    """Return the module `keyring` where it is installed and has a place to keep things in."""
    if _is_keyring_off() or importlib.util.find_spec("keyring") is None:
        return None
    keyring = importlib.import_module("keyring")
    usable: float = keyring.get_keyring().priority
    return keyring if usable > 0 else None


@contextmanager
def _change_contexts() -> Iterator[Any]:
    """Yield the document to change and write it whole, one process after the other."""
    file = conf.config_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with file.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            saved = read_contexts()
            contexts = {name: each.document for name, each in saved.contexts.items()}
            document = {"current": saved.current, "contexts": contexts}
            yield document
            _replace(file, json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be written: {error.strerror}") from None


def _replace(file: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    new = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
