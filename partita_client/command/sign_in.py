"""`login`, `logout`, `whoami` and `context`."""

from __future__ import annotations

import sys
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from partita_client.addresses import ServerAddress, parse_address
from partita_client.client import Client
from partita_client.command.device_sign_in import confirm_device
from partita_client.command.output import ListColumn, note, printable, say, show_document, show_list
from partita_client.command.parser import CommandNoun, CommandSession, CommandVerb
from partita_client.contexts import (
    SavedContext,
    find_context,
    read_contexts,
    remove_context,
    require_name,
    save_context,
    token_of,
    use_context,
)
from partita_client.errors import (
    ApiProblem,
    BadConfiguration,
    ClientError,
    NoServer,
)
from partita_client.exit_codes import ExitCode
from partita_client.server_choice import LOCAL, NO_SERVER, read_token_file

_MAX_TOKEN: Final = 16_384
_HOST_CHARACTERS: Final = 50  # of the name of a context


def _add_login(parser: Any) -> None:
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="address of the server")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--token-stdin", action="store_true", help="read an API token from stdin")
    source.add_argument("--token-file", type=Path, metavar="FILE", help="read it from a file")
    source.add_argument(
        "--device", action="store_true", help="confirm a code on a page; the default on a terminal"
    )
    parser.add_argument("--name", default="", help="of the context; default: the host's name")


def login(session: CommandSession) -> int:
    """Get a token, try it, and keep it as the current context."""
    options = session.options
    url, known = _address_to_sign_in(session)
    ca_file = options.ca_file or (known.ca_file if known else "")
    if ca_file:
        ca_file = str(Path(ca_file).absolute())
    address = parse_address(url)
    name = _context_name(options.name, address, known)
    if address.scheme == "http" and not address.is_loopback:
        note(f"warning: {address.url} is not encrypted: the token can be read on its way")
    token, token_id = _given_token(session), ""
    if not token:
        with session.connect(url, ca_file=ca_file) as client:
            made = confirm_device(client)
        token, token_id = made["token"], made.get("tokenId", "")
    with session.connect(url, token=token, ca_file=ca_file) as client:
        who = client.me()
    former = read_contexts().contexts.get(name)
    former = replace(former, token=_token_or_none(former), is_in_keyring=False) if former else None
    context = SavedContext(
        name=name,
        url=address.url,
        token=token,
        ca_file=ca_file,
        user=who["user"]["email"],
        token_id=former.token_id if former and former.token == token else token_id,
    )
    saved = save_context(context, on_no_keyring=_say_no_keyring)
    note(
        f"signed in to {saved.url} as {printable(saved.user)} ({who['role']} in "
        f"{printable(who['workspace']['name'])}); context {saved.name} is the current one"
    )
    place = "the keyring" if saved.is_in_keyring else "the file of the contexts, mode 0600"
    note(f"the token is in {place}; next: partita run list")
    if former is not None and former.token != token and (why := _end_made(former)):
        note(f"the token of the former login is still valid: {printable(why)}")
        note(f"revoke it on the page Account of {former.url}")
    return ExitCode.OK


def _say_no_keyring(why: str) -> None:
    note(f"warning: the keyring does not take the token: {printable(why)}")


def _end_made(former: SavedContext) -> str | None:
    """Revoke a token that a former login made; return why it is still valid."""
    return _end_session(former) if former.token_id else None


def _context_name(given: str, address: ServerAddress, known: SavedContext | None) -> str:
    """Return the name of the context to make; raise BadConfiguration.

    It never is that of another server: its token would be lost, and would stay valid.
    """
    contexts = read_contexts().contexts
    free = [name for name in (given,) if name] or _default_names(address, known)
    for name in free:
        if name not in contexts or contexts[name].url == address.url:
            return require_name(name)
    raise BadConfiguration(
        f"the context {free[0]} is of {contexts[free[0]].url}",
        advice=f"another name: --name NAME, or first: partita logout {free[0]}",
    )


def _default_names(address: ServerAddress, known: SavedContext | None) -> list[str]:
    """Return the name of the context of the server, else its host, with the port, and numbers."""
    if known is not None:
        return [known.name]
    host = address.host.replace(":", "-").strip("-.")[:_HOST_CHARACTERS].rstrip("-.")
    numbered = [f"{host}-{address.port}-{number}" for number in range(2, 100)]
    return [host, f"{host}-{address.port}", *numbered]


def _token_or_none(context: SavedContext) -> str:
    """Return the token of a context, empty where it cannot be read any more."""
    try:
        return token_of(context)
    except BadConfiguration:
        return ""


def _address_to_sign_in(session: CommandSession) -> tuple[str, SavedContext | None]:
    """Return the address, and the context that there is for it."""
    options = session.options
    saved = read_contexts()
    url = options.url or options.server
    if not url:
        current = saved.contexts.get(options.context_name or saved.current)
        if current is None:
            raise NoServer("which server?", advice=NO_SERVER)
        return current.url, current
    address = parse_address(url).url
    return address, next((each for each in saved.contexts.values() if each.url == address), None)


def _given_token(session: CommandSession) -> str:
    options = session.options
    if options.token_file:
        return read_token_file(options.token_file)
    if options.token_stdin:
        token = sys.stdin.read(_MAX_TOKEN).strip()
        if not token:
            raise BadConfiguration(
                "nothing came on stdin", advice="partita login URL --token-stdin < token.txt"
            )
        return token
    if not options.device and not sys.stdin.isatty():
        raise BadConfiguration(
            "nobody can confirm a code here: this is not a terminal",
            advice="partita login URL --token-stdin < token.txt, or PARTITA_URL and PARTITA_TOKEN",
        )
    return ""


def logout(session: CommandSession) -> int:
    """End what the login of a context made, and forget the context.

    An API token that was given to the login stays valid until it is revoked. One that the login
    made and that could not be revoked is named, and the exit code is 6.
    """
    name = session.options.context_name or session.options.name or read_contexts().current
    if not name:
        note("not signed in anywhere: partita context list shows the contexts")
        return ExitCode.OK
    context = find_context(name)
    left = _end_session(context)
    remove_context(name)
    if left is None:
        note(f"signed out of {context.url}; the context {name} is gone")
        return ExitCode.OK
    note(f"the context {name} is gone, and its token is still valid: {printable(left)}")
    note(f"next: revoke the API token on the page Account of {context.url}")
    return ExitCode.OK if left == _GIVEN else ExitCode.UNAVAILABLE


_GIVEN: Final = "it was given to the login, which did not make it"


def _end_session(context: SavedContext) -> str | None:
    """Return why the token is still valid, None if it is not."""
    try:
        with Client(
            context.url, token=token_of(context), ca_file=context.ca_file, timeout_s=5
        ) as client:
            if context.token_id:
                client.revoke_token(context.token_id)
            else:
                client.sign_out()
    except ApiProblem as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return None
        return _GIVEN if error.code == "session_required" else error.detail
    except ClientError as error:
        return error.detail
    return None


def _add_name(parser: Any) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="default: the current")


def show_person(session: CommandSession) -> int:
    who, choice = session.client.me(), session.choice
    user = who["user"]
    if not session.is_for_people:
        document = {**who, "server": choice.url, "context": choice.context}
        show_document(document, session.form, name=user["email"])
        return ExitCode.OK
    admin = ", administrator of the installation" if user["isAdmin"] else ""
    say(f"{printable(user['fullName'])} <{printable(user['email'])}>{admin}")
    say(f"{who['role']} in {printable(who['workspace']['name'])}")
    say(f"at {choice.url}, by {choice.origin}; the token ends {who['expiresAt']}")
    return ExitCode.OK


CONTEXT_COLUMNS: Final = (
    ListColumn(heading="", cell=lambda each: "*" if each["current"] else " "),
    ListColumn(heading="NAME", cell=lambda each: each["name"]),
    ListColumn(heading="URL", cell=lambda each: each["url"]),
    ListColumn(heading="USER", cell=lambda each: each["user"]),
    ListColumn(heading="TOKEN", cell=lambda each: each["tokenIn"], is_wide=True),
)


def list_contexts(session: CommandSession) -> int:
    saved = read_contexts()
    documents = [_document_of(each, saved.current) for each in saved.contexts.values()]
    show_list("contexts", documents, CONTEXT_COLUMNS, session.form, key="name")
    if not documents and session.is_for_people:
        note("no contexts yet: partita login https://partita.example.com")
    return ExitCode.OK


def _document_of(context: SavedContext, current: str) -> dict[str, object]:
    """Return what may be shown of a context: never its token."""
    return {
        "name": context.name,
        "url": context.url,
        "user": context.user,
        "caFile": context.ca_file,
        "tokenIn": "keyring" if context.is_in_keyring else "file",
        "current": context.name == current,
    }


def choose_context(session: CommandSession) -> int:
    name = session.options.name
    if name == LOCAL and LOCAL not in read_contexts().contexts:
        raise BadConfiguration(
            "the `up` of this machine is used by itself where no context is the current one",
            advice="name it for one command: --context local",
        )
    use_context(name)
    note(f"{name} is the current context")
    return ExitCode.OK


def show_context(session: CommandSession) -> int:
    """Print which server is meant here and now, and why."""
    choice = session.choice
    has_token = bool(choice.token)
    document = {"url": choice.url, "from": choice.origin, "context": choice.context}
    document |= {"user": choice.user, "hasToken": "yes" if has_token else "no"}
    if session.is_for_people:
        say(f"{choice.url}, by {choice.origin}")
        if not has_token:
            note(f"there is no token for it: partita login {choice.url}")
    else:
        show_document(document, session.form, name=choice.context or choice.url)
    return ExitCode.OK


def forget_context(session: CommandSession) -> int:
    context = remove_context(session.options.name)
    note(f"the context {context.name} of {context.url} is gone; its token was not revoked")
    return ExitCode.OK


def _add_required_name(parser: Any) -> None:
    parser.add_argument("name", metavar="NAME")


_EXAMPLES: Final = """\
  partita login https://partita.example.com            confirm a code in the browser
  partita login https://partita.example.com --token-stdin < token.txt
  partita whoami
  partita context list
  partita context use staging
  partita logout"""
LOGIN: Final = CommandNoun(
    name="login",
    text="Sign in to a server.",
    verbs=(
        CommandVerb(
            name="",
            text="sign in to a server, which becomes the current context",
            run=login,
            add_arguments=_add_login,
            formats=(),
        ),
    ),
    examples=_EXAMPLES,
)
LOGOUT: Final = CommandNoun(
    name="logout",
    text="Sign out and forget the context.",
    verbs=(
        CommandVerb(
            name="",
            text="sign out of a context and forget its token",
            run=logout,
            add_arguments=_add_name,
            formats=(),
        ),
    ),
    examples=_EXAMPLES,
)
WHOAMI: Final = CommandNoun(
    name="whoami",
    text="Print who is signed in where.",
    verbs=(CommandVerb(name="", text="print who is signed in, and where", run=show_person),),
    examples=_EXAMPLES,
)
CONTEXT: Final = CommandNoun(
    name="context",
    text="The servers that you are signed in to.",
    verbs=(
        CommandVerb(name="list", text="list the contexts", run=list_contexts),
        CommandVerb(
            name="use",
            text="make a context the current one",
            run=choose_context,
            add_arguments=_add_required_name,
            formats=(),
        ),
        CommandVerb(name="show", text="print which server is meant, and why", run=show_context),
        CommandVerb(
            name="remove",
            text="forget a context and its token",
            run=forget_context,
            add_arguments=_add_required_name,
            formats=(),
        ),
    ),
    examples=_EXAMPLES,
)
