"""New suites from the templates in examples/starters, and one style for Starlark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apps.suites import conf
from apps.suites.dependencies.modules import loadable_modules
from apps.suites.domain.calls import EvaluationAnswer
from apps.suites.domain.definition import Suite
from apps.suites.domain.package import TOPOLOGY_FILE, WORKSPACE
from apps.suites.domain.starlark.style import MeaningChanged, format_text
from apps.suites.domain.starlark.text import UnreadableText
from apps.suites.evaluator.process import run_evaluator
from apps.suites.selectors import PackageInvalid
from apps.suites.sources import folders
from kernel.errors import InvalidInput, known_names
from kernel.ids import humanize, is_identifier

STARTERS: Final = Path(__file__).resolve().parents[3] / "examples" / "starters"
_TITLE, _ID = b"TITLE", b"ID"  # placeholders in README.md and metadata.yaml


def starters() -> list[str]:
    """Return the names of the templates of `suite new`."""
    return sorted(each.name for each in STARTERS.iterdir() if each.is_dir())


def new_suite(folder: Path, template: str) -> list[str]:
    """Write a suite from a template into a new or empty folder; return its files.

    Raise InvalidInput for an unknown template or a folder that cannot be a suite, FolderTaken.
    """
    if template not in starters():
        raise InvalidInput(f'there is no template "{template}"{known_names(starters())}')
    suite_id = folder.resolve().name
    if not is_identifier(suite_id):
        raise InvalidInput(f'"{suite_id}" is not a valid suite id; choose another folder name')
    files = folders.read_package(template, STARTERS / template).files
    written = {path: _fill(path, content, suite_id) for path, content in files.items()}
    try:
        folders.write_files(written, folder)
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror}") from None
    return sorted(written)


def copy_files(suite: Suite, folder: Path) -> None:
    """Write a suite's files into a new or empty folder.

    Raise FolderTaken, PackageInvalid, InvalidInput.
    """
    if problem := suite.package_problem:
        raise PackageInvalid(problem)
    try:
        folders.write_files(suite.package.files, folder)
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror}") from None


def _fill(path: str, content: bytes, suite_id: str) -> bytes:
    if path not in ("README.md", "metadata.yaml"):
        return content
    title = humanize(suite_id).encode()
    return content.replace(_TITLE, title).replace(_ID, suite_id.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedFile:
    """A Starlark file of a suite in one style; with a `problem`, `after` is the text as it is."""

    path: str
    before: str
    after: str
    problem: str = ""


def format_files(suite: Suite) -> Iterator[FormattedFile]:
    """Format the Starlark files of a suite and yield them; an evaluation checks suite.star."""
    for path in sorted(suite.package.files):
        if path.endswith(".star"):
            yield _format(suite, path, suite.package.text(path))


def write_formatted(suite: Suite, files: list[FormattedFile]) -> None:
    """Write the files that have changed into the suite's folder; raise InvalidInput.

    Only suites of the workspace have a folder.
    """
    folder = workspace_folder(suite)
    for each in files:
        if each.after != each.before and not each.problem:
            try:
                folders.replace_file(folder / each.path, each.after)
            except OSError as error:
                raise InvalidInput(f"{folder / each.path}: {error.strerror}") from None


def workspace_folder(suite: Suite) -> Path:
    """Return the folder of a suite of the workspace; others have none and raise InvalidInput."""
    if suite.source != WORKSPACE:
        raise InvalidInput(f"{suite.suite_id} is not a suite of the workspace; fork it first")
    return conf.suites_dir() / suite.suite_id


def _format(suite: Suite, path: str, text: str) -> FormattedFile:
    try:
        after = format_text(text)
    except UnreadableText as error:
        place = f"{path}:{error.line}" if error.line else path
        return FormattedFile(path=path, before=text, after=text, problem=f"{place}: {error.reason}")
    except (MeaningChanged, RecursionError):
        reason = f"{path}: cannot be formatted without a change of its meaning"
        return FormattedFile(path=path, before=text, after=text, problem=reason)
    if path == TOPOLOGY_FILE and after != text and (problem := _difference(suite, text, after)):
        return FormattedFile(path=path, before=text, after=text, problem=f"{path}{problem}")
    return FormattedFile(path=path, before=text, after=after)


def _difference(suite: Suite, before: str, after: str) -> str:
    """Return why a text may not be replaced: it does not parse, or evaluates to something else."""
    modules = loadable_modules(suite)
    rules = conf.evaluation_rules(suite.package.files)
    one, other = (
        run_evaluator(text, env={}, rules=rules, modules=modules) for text in (before, after)
    )
    problem = one["problem"]
    if problem and problem["code"] == "syntax_error":
        return f":{problem.get('line', 0)}: {problem['message']}"
    if _outcome(one) != _outcome(other):
        return ": cannot be formatted without a change of its meaning"
    return ""


def _outcome(answer: EvaluationAnswer) -> tuple[Any, ...]:
    nodes = [
        {key: value for key, value in _members(node).items() if key != "position"}
        for node in answer["nodes"]
    ]
    problem = answer["problem"]
    said = (problem["code"], problem["message"]) if problem else ()
    return nodes, answer["printed"], answer["bound"], said


def _members(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return node
