"""`version`: that of the client, and that of the server where one is known."""

from __future__ import annotations

from typing import Final

from partita_client.client import Client
from partita_client.command.output import note, printable, say, show_document
from partita_client.command.parser import CommandNoun, CommandSession, CommandVerb
from partita_client.errors import ClientError
from partita_client.exit_codes import ExitCode
from partita_client.release import VERSION

_PATIENCE_S: Final = 3.0


def show_versions(session: CommandSession) -> int:
    """Print both versions; a server that is away is no failure of this command."""
    document = {"client": VERSION}
    why = ""
    try:
        choice = session.choice
        with Client(choice.url, ca_file=choice.ca_file, timeout_s=_PATIENCE_S) as client:
            document |= {"server": client.health().get("version", ""), "url": choice.url}
    except ClientError as error:
        why = error.detail
    if not session.is_for_people:
        show_document(document, session.form)
        return ExitCode.OK
    say(f"partita {VERSION}")
    if "url" in document:
        version = document["server"] or "of unknown version"
        say(printable(f"server {version} at {document['url']}"))
    elif why:
        note(printable(f"server: {why}"))
    if document.get("server") not in (None, "", VERSION):
        note("client and server are of different versions")
    return ExitCode.OK


NOUN: Final = CommandNoun(
    name="version",
    text="Print the versions of the client and of the server.",
    verbs=(
        CommandVerb(
            name="",
            text="print the versions of the client and of the server",
            run=show_versions,
            formats=("text", "json", "yaml"),
        ),
    ),
    examples="  partita version -o json",
)
