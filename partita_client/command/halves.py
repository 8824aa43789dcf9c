"""Which half runs a verb: the client by HTTP, or the commands beside the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partita_client.command.parser import LOCAL_OPTION, CommandNoun, CommandVerb
from partita_client.errors import BadConfiguration, NoServer
from partita_client.local_up import usual_folder
from partita_client.server_choice import GivenServer, choose_server


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCommand:
    """A command for the half beside the store; `data_dir` names the `up` that was found."""

    words: Sequence[str]
    data_dir: str = ""


def choose_half(
    noun: CommandNoun, words: Sequence[str], *, has_store: bool
) -> StoreCommand | CommandVerb | None:
    """Return a verb of the client or a command for the store; None for a verb of neither.

    `has_store`: whether the half beside the store is installed. Raise BadConfiguration.
    """
    is_local = _is_local(noun, words)
    name = words[0] if words else ""
    verb = noun.find(name)
    if name in noun.store_verbs and not is_local:
        return _to_local_store(noun, words)
    is_for_store = noun.is_shared and (verb is None or not _means_server(words[1:]))
    if is_local or name in noun.file_verbs or (is_for_store and has_store):
        others = [word for word in words if word != LOCAL_OPTION]
        return StoreCommand(words=[noun.name, *(others if is_local else words)])
    return verb


def _is_local(noun: CommandNoun, words: Sequence[str]) -> bool:
    """Return whether a verb of both halves is meant for files and store; raise BadConfiguration."""
    if not noun.is_shared or LOCAL_OPTION not in words:
        return False
    if _names_server(words):
        raise BadConfiguration(f"{LOCAL_OPTION} means no server: leave out --server and --context")
    return True


def _means_server(words: Sequence[str]) -> bool:
    """Return whether something says which server a verb of both halves is meant for."""
    if _names_server(words):
        return True
    try:
        choose_server(GivenServer())
    except NoServer:
        return False
    return True


def _names_server(words: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in ("--server", "--context") for word in words)


def _to_local_store(noun: CommandNoun, words: Sequence[str]) -> StoreCommand:
    """Let the other half run a verb that HTTP does not have yet, on the store of the `up` here."""
    try:
        choice = choose_server(GivenServer())
    except NoServer:
        return StoreCommand(words=[noun.name, *words])
    typed = f"{noun.name} {words[0]}"
    if not choice.data_dir:
        raise BadConfiguration(
            f"`partita {typed}` works on this machine's `up` only, and {choice.url} is meant",
            advice=f"use the pages of {choice.url}, or type it where its store is: "
            f"partita admin {typed} …",
        )
    if Path(choice.data_dir).resolve() != usual_folder().resolve():
        raise BadConfiguration(
            f"`partita {typed}` works on the store of {usual_folder()}, and the `up` that runs is "
            f"that of {choice.data_dir}",
            advice=f"if you mean that one: DATA_DIR={choice.data_dir} partita {typed} …",
        )
    return StoreCommand(words=[noun.name, *words], data_dir=choice.data_dir)
