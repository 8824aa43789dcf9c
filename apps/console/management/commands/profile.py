"""`partita profile list|show|set|delete|default|env`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from apps.accounts import api as accounts
from apps.executions import api as executions
from apps.http.api import strong_etag
from apps.operations.api import (
    LIST_OUTPUTS,
    CommandOptions,
    ExitCode,
    VerbCommand,
    print_json,
    print_list,
    print_table,
)
from apps.profiles import api as profiles
from apps.suites import api as suites
from kernel.errors import InvalidInput
from partita_client.command.resources import COUNT_COLUMNS, PROFILE_COLUMNS

_MOST_BYTES: Final = 2**20


class Command(VerbCommand):
    help = "List, show, store and delete the profiles of suites; explain a step's environment."
    examples = """\
  partita profile list                                   every suite with its default
  partita profile list shop                              the profiles of one suite
  partita profile show shop ci.yaml                      its YAML, as it is
  partita profile set shop nightly.yaml --from nightly.yaml
  partita profile set shop nightly.yaml --from - --if-match "$TAG" < nightly.yaml
  partita profile default shop nightly.yaml
  partita profile delete shop nightly.yaml
  partita profile env shop ci.yaml --step api            what the step gets, and where it is from
a profile is named by its file or its id; `show -o json` has the entity tag for --if-match"""

    def add_arguments(self, parser: Any) -> None:
        verbs = self.add_verbs(parser)
        text = "list suites, or profiles of one"
        listing = self.add_verb(verbs, "list", list_profiles, text, outputs=LIST_OUTPUTS)
        listing.add_argument("suite", nargs="?", default="", help="the suite's id")
        show = self.add_verb(verbs, "show", show_profile, "print the YAML of a profile")
        store = self.add_verb(verbs, "set", set_profile, "store a profile, new or changed")
        delete = self.add_verb(verbs, "delete", delete_profile, "delete a profile")
        default = self.add_verb(verbs, "default", make_default, "make a profile the default")
        for verb in (show, store, delete, default):
            verb.add_argument("suite", help="the suite's id")
            verb.add_argument("profile", help="file name or id")
        for verb in (store, delete, default):
            verb.add_argument(
                "--if-match", default="", metavar="TAG", help="only if nothing changed since"
            )
        self._add_values(store)
        env = self.add_verb(verbs, "env", explain_env, "explain the environment of a step")
        env.add_argument("suite", help="the suite's id")
        env.add_argument("profile", nargs="?", default="", help="default: the suite's default")
        env.add_argument("--step", default="", help="id or name; default: the first step")

    def _add_values(self, store: Any) -> None:
        store.add_argument(
            "--from", dest="source", required=True, metavar="FILE", help="YAML; - reads stdin"
        )
        store.add_argument("--name", help="default: `name` of the YAML")
        store.add_argument("--description", help="default: that of the YAML")
        store.add_argument("--scope", default="", help="default: derived of the file name")
        store.add_argument(
            "--base", action="store_true", help="only for others to extend: not launchable"
        )


def list_profiles(options: CommandOptions) -> int:
    if not options["suite"]:
        return _list_suites(options)
    suite = suites.find_suite_by_id(options["suite"])
    document = _document(suite)
    if options["output"] == "json":
        print_json(document)
        return ExitCode.OK
    found, key = document["profiles"], "fileName"
    print_list("profiles", found, PROFILE_COLUMNS, options["output"], key=key)
    return ExitCode.OK


def _list_suites(options: CommandOptions) -> int:
    found = sorted(
        (suites.profile_summary(suite) for suite in suites.every_suite()),
        key=lambda each: (each["title"].casefold(), each["id"]),
    )
    print_list("suites", found, COUNT_COLUMNS, options["output"], key="id")
    return ExitCode.OK


def show_profile(options: CommandOptions) -> int:
    suite = suites.find_suite_by_id(options["suite"])
    document = _document(suite)
    profile_id = _profile_id(suite, options["profile"])
    record = next(each for each in document["profiles"] if each["id"] == profile_id)
    if options["output"] == "json":
        print_json(record | {"etag": strong_etag(document)})
    else:
        text = record["yaml"]
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    return ExitCode.OK


def set_profile(options: CommandOptions) -> int:
    suite = suites.find_suite_by_id(options["suite"])
    text = _text_of(options["source"])
    known = profiles.find_profile(suites.current_profiles(suite).profiles, options["profile"])
    file_name = known.file_name if known else options["profile"]
    read = profiles.profiles_of({f"profiles/{file_name}": text.encode()})
    draft = profiles.Draft(
        name=options["name"] or (read[0].label if read else file_name),
        file_name=file_name,
        yaml=text,
        description=options["description"] or "",
        scope=options["scope"],
        launchable=not options["base"],
    )
    edit = _edit(suite, options)
    if known:
        written = profiles.replace_profile(edit, known.profile_id, draft)
    else:
        written = profiles.create_profile(edit, draft)
    return _print_written(suite, written, options, "stored")


def delete_profile(options: CommandOptions) -> int:
    suite = suites.find_suite_by_id(options["suite"])
    written = profiles.delete_profile(_edit(suite, options), _profile_id(suite, options["profile"]))
    return _print_written(suite, written, options, "deleted")


def make_default(options: CommandOptions) -> int:
    suite = suites.find_suite_by_id(options["suite"])
    written = profiles.make_default(_edit(suite, options), _profile_id(suite, options["profile"]))
    return _print_written(suite, written, options, "the default now")


def explain_env(options: CommandOptions) -> int:
    found = executions.explain_env(options["suite"], options["profile"], options["step"])
    if options["output"] == "json":
        print_json(
            {
                "suiteId": found.suite_id,
                "profile": found.profile,
                "step": found.step_id,
                "variables": [
                    {
                        "name": each.key,
                        "value": each.value,
                        "origin": each.origin,
                        "secret": each.key in found.secrets,
                        "replaced": [
                            {"origin": origin, "value": value} for origin, value in each.replaced
                        ],
                    }
                    for each in found.variables
                ],
            }
        )
        return ExitCode.OK
    rows = [
        (each.key, each.value, each.origin, ", ".join(origin for origin, _ in each.replaced))
        for each in found.variables
    ]
    sys.stdout.write(f"step {found.step_id} under {found.profile or 'no profile'}\n")
    print_table(("NAME", "VALUE", "FROM", "REPLACES"), rows)
    return ExitCode.OK


def _document(suite: Any) -> suites.SuiteProfilesDocument:
    found = suites.current_profiles(suite)
    return suites.profiles_document(suite, found, accounts.operator())


def _edit(suite: Any, options: CommandOptions) -> profiles.Edit:
    return suites.profile_edit(accounts.operator(), suite, if_match=options["if_match"])


def _profile_id(suite: Any, named: str) -> str:
    """Return the id of a profile that is named by its file or id; raise ProfileNotFound."""
    current = suites.current_profiles(suite)
    known = profiles.find_profile(current.profiles, named)
    return (known or profiles.require_profile(current, named)).profile_id


def _text_of(source: str) -> str:
    try:
        if source == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES)
        else:
            with Path(source).open("rb") as file:
                content = file.read(_MOST_BYTES)
        return content.decode()
    except OSError as error:
        raise InvalidInput(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source} is not UTF-8 (byte {error.start})") from None


def _print_written(
    suite: Any, written: profiles.Written, options: CommandOptions, outcome: str
) -> int:
    document = suites.profiles_document(suite, written.profiles, accounts.operator())
    if options["output"] == "json":
        print_json(document)
        return ExitCode.OK
    sys.stdout.write(f"{options['profile']} of {suite.suite_id} is {outcome}\n")
    for warning in document["warnings"]:
        if warning["profileId"] == written.profile_id:
            sys.stderr.write(f"warning {warning['code']}: {warning['detail']}\n")
    return ExitCode.OK
