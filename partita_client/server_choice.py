"""Which server is meant.

Options before the environment before partita.toml before the context before an `up` here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from partita_client import conf
from partita_client.addresses import parse_address
from partita_client.contexts import SavedContext, find_context, read_contexts, token_of
from partita_client.errors import BadConfiguration, NoServer
from partita_client.local_up import LocalUp, find_local_up, token_of_up
from partita_client.project import find_project

LOCAL: Final = "local"  # the name of the `up` of this machine where a context is named
_BY_PROJECT: Final = "partita.toml"
NO_SERVER: Final = "a server: partita login https://partita.example.com\n  this machine: partita up"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChoice:
    """`origin` says where the choice comes from; `data_dir` is empty for others than an `up`.

    `pages_url` is the address of its pages where that is another one. `known_token` comes before
    that of the context.
    """

    url: str
    origin: str
    known_token: str = field(default="", repr=False)
    ca_file: str = ""
    saved: SavedContext | None = field(default=None, repr=False)
    data_dir: str = ""
    pages_url: str = ""

    @property
    def token(self) -> str:
        """The token, empty where there is none; a keyring is opened now. Raise BadConfiguration."""
        if self.known_token or self.saved is None:
            return self.known_token
        return token_of(self.saved)

    @property
    def context(self) -> str:
        """The name of the context, empty for a server without one."""
        return self.saved.name if self.saved is not None else ""

    @property
    def user(self) -> str:
        return self.saved.user if self.saved is not None else ""

    @property
    def new_token(self) -> Callable[[], str] | None:
        """Return a reader of the token of an `up`, which each of its starts replaces."""
        return partial(token_of_up, Path(self.data_dir)) if self.data_dir else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenServer:
    """The options of a command that name a server, empty where they were not given."""

    url: str = ""
    context: str = ""
    ca_file: str = ""


def choose_server(given: GivenServer) -> ServerChoice:
    """Return the server that is meant; raise NoServer, BadConfiguration."""
    if given.url and given.context:
        raise BadConfiguration("--server and --context name two servers: leave one out")
    if given.url:
        token = _token_for(parse_address(given.url).url)
        return _by_url(given.url, "--server", given.ca_file, token=token)
    if given.context:
        return _by_name(given.context, "--context", given.ca_file)
    if url := conf.variable("PARTITA_URL"):
        return _by_url(url, "PARTITA_URL", given.ca_file, token=_given_token())
    if name := conf.variable("PARTITA_CONTEXT"):
        return _by_name(name, "PARTITA_CONTEXT", given.ca_file, token=_given_token())
    return _by_habit(given.ca_file)


def _by_habit(ca_file: str) -> ServerChoice:
    """Return what no option and no variable names.

    An `up` of a DATA_DIR that is set, the server of partita.toml, the current context, or an `up`
    of this machine.
    """
    if conf.variable("DATA_DIR") and (found := find_local_up()):
        return _of_up(found)
    if (project := find_project()) and project.server:
        return _by_project(project.server, project.place_of("server"), ca_file)
    saved = read_contexts()
    if saved.current in saved.contexts:
        context = saved.contexts[saved.current]
        _require_no_token("the current context is that of", context.url)
        return _of_context(context, "the current context", ca_file)
    if found := find_local_up():
        return _of_up(found)
    raise NoServer("no server is known", advice=NO_SERVER)


def _by_project(url: str, place: str, ca_file: str) -> ServerChoice:
    """Return the server that partita.toml names, with the token of its own context alone.

    Whoever wrote the repository chose the address.
    """
    address = parse_address(url).url
    _require_no_token(f"{place} names", address)
    context = _context_of_address(address)
    if context is not None:
        return _of_context(context, _BY_PROJECT, ca_file)
    return ServerChoice(url=address, origin=_BY_PROJECT, ca_file=ca_file or _given_ca_file())


def _require_no_token(what_chose: str, address: str) -> None:
    """Raise BadConfiguration where the environment has a token, but does not say for which server.

    It is that of another server, as far as is known here. It is neither sent to one that a file
    chose, be that of the repository or of the contexts, nor left out without a word.
    """
    if not _given_token():
        return
    name = "PARTITA_TOKEN_FILE" if conf.variable("PARTITA_TOKEN_FILE") else "PARTITA_TOKEN"
    raise BadConfiguration(
        f"{what_chose} {address}, and the token of the environment is not sent to a server that a "
        "file chose",
        advice=f"if the token is for it, say so: PARTITA_URL={address}; else unset {name}",
    )


def _context_of_address(address: str) -> SavedContext | None:
    known = read_contexts().contexts.values()
    return next((each for each in known if each.url == address), None)


def _by_url(url: str, origin: str, ca_file: str, *, token: str) -> ServerChoice:
    """Return a server by its address, with the given token, else that of its context."""
    address = parse_address(url).url
    if (context := _context_of_address(address)) is not None:
        return _of_context(context, origin, ca_file, token=token)
    return ServerChoice(
        url=address, origin=origin, known_token=token, ca_file=ca_file or _given_ca_file()
    )


def _by_name(name: str, origin: str, ca_file: str, *, token: str = "") -> ServerChoice:
    if name == LOCAL and LOCAL not in read_contexts().contexts:
        if found := find_local_up():
            return _of_up(found)
        raise NoServer("no `up` runs on this machine", advice="start it: partita up")
    return _of_context(find_context(name), origin, ca_file, token=token)


def _of_context(
    context: SavedContext, origin: str, ca_file: str, *, token: str = ""
) -> ServerChoice:
    return ServerChoice(
        url=context.url,
        origin=origin,
        known_token=token,
        ca_file=ca_file or _given_ca_file() or context.ca_file,
        saved=context,
    )


def _of_up(found: LocalUp) -> ServerChoice:
    return ServerChoice(
        url=found.url,
        origin=f"the `up` of {found.folder}",
        known_token=found.token,
        data_dir=str(found.folder),
        pages_url=found.pages_url,
    )


def _given_token() -> str:
    if file := conf.variable("PARTITA_TOKEN_FILE"):
        return read_token_file(Path(file))
    return conf.variable("PARTITA_TOKEN")


def _token_for(address: str) -> str:
    """Return the token of the environment, empty where the environment names another server."""
    if url := conf.variable("PARTITA_URL"):
        return _given_token() if parse_address(url).url == address else ""
    if name := conf.variable("PARTITA_CONTEXT"):
        named = read_contexts().contexts.get(name)
        return _given_token() if named is not None and named.url == address else ""
    return _given_token()


def _given_ca_file() -> str:
    return conf.variable("PARTITA_CA_FILE")


def read_token_file(file: Path) -> str:
    """Return the token that a file holds; raise BadConfiguration."""
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(64 * 1024).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise BadConfiguration(f"the file of the token, {file}, cannot be read: {why}") from None
    if not text:
        raise BadConfiguration(f"the file of the token, {file}, is empty")
    return text
