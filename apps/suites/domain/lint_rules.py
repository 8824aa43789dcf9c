"""What is legal in a suite but most likely wrong. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from apps.profiles.api import Profile, looks_secret
from apps.suites.domain.calls import TextLint
from apps.suites.domain.definition import Suite, SuiteEvaluation
from apps.suites.domain.dependencies import LOCK_FILES, DeclaredDependency, lock_of
from apps.suites.domain.export_clashes import find_export_clashes
from apps.suites.domain.lint_comments import without_ignored
from apps.suites.domain.package import TOPOLOGY_FILE
from apps.suites.domain.topology import ResolvedNode
from readers.diagnostics import Diagnostic

_SCRIPT_FOLDERS: Final = ("services/", "tasks/", "tests/")
_SCRIPT: Final = re.compile(r"(?<![\w./-])(?:services|tasks|tests)/[\w./-]+\.\w+")
_WITHOUT_PROGRAM: Final = ("log", "mock")
_WHOLE_FILE_LIMIT: Final = 256 * 1024  # bytes of a file that are searched for names


def lint(
    suite: Suite,
    evaluations: Mapping[str, SuiteEvaluation],
    importable: Mapping[str, Suite],
    lints: Sequence[TextLint] = (),
    mocks: Sequence[Diagnostic] = (),
) -> list[Diagnostic]:
    """Return the diagnostics of a suite, by file and line, each once, without accepted ones.

    `evaluations` are those under each profile, by file name; `importable` are the imported suites
    by their alias; `lints` are those of the text of suite.star, `mocks` those of api/ and mock/.
    """
    found: list[Diagnostic] = [*_warnings_of_files(suite), *mocks]
    found += [
        Diagnostic(
            code=each["code"],
            severity="warning",
            message=each["message"],
            file=TOPOLOGY_FILE,
            line=each["line"],
            column=each["column"],
        )
        for each in lints
    ]
    for evaluation in evaluations.values():
        found += _diagnostics_of_nodes(suite, evaluation)
    resolved = [each for each in evaluations.values() if each.problem is None]
    found += _unused_files(suite, resolved)
    for profile in suite.file_profiles:
        found += _diagnostics_of_profile(suite, profile, resolved)
    found += _diagnostics_of_dependencies(suite, importable)
    found += _unused_pins(suite, evaluations.values())
    kept = without_ignored(suite.package, dict.fromkeys(found))
    return sorted(kept, key=lambda each: (each.file, each.line, each.code, each.message))


def problem_diagnostics(evaluations: Mapping[str, SuiteEvaluation]) -> Iterator[Diagnostic]:
    """Yield all reasons why the suite does not resolve, each once with the profiles it is true of.

    What is wrong under every profile names none.
    """
    found: dict[Diagnostic, list[str]] = {}
    for name, evaluation in evaluations.items():
        problem = evaluation.problem
        for each in (problem, *problem.more) if problem else ():
            diagnostic = Diagnostic(
                code=each.code,
                severity="error",
                message=each.message,
                file=each.file or "",
                line=each.line or 0,
                column=each.column or 0,
            )
            found.setdefault(diagnostic, []).append(name)
    for diagnostic, names in found.items():
        named = [name for name in names if name]
        where = f"with {', '.join(named)}: " if named and len(names) < len(evaluations) else ""
        yield replace(diagnostic, message=f"{where}{diagnostic.message}")


def _warnings_of_files(suite: Suite) -> Iterator[Diagnostic]:
    for each in (*suite.metadata.warnings, *suite.dependencies.warnings):
        yield Diagnostic(
            code=each.code,
            severity="warning",
            message=each.detail,
            file=each.file or "",
            line=each.line or 0,
        )
    for profile in suite.file_profiles:
        for unknown in profile.warnings:
            yield Diagnostic(
                code=unknown.code,
                severity="warning",
                message=unknown.detail,
                file=unknown.file or "",
                line=unknown.line or 0,
            )


def _diagnostics_of_nodes(suite: Suite, evaluation: SuiteEvaluation) -> Iterator[Diagnostic]:
    needed = {name for node in evaluation.topology for name in node["dependsOn"]}
    dead = _dead_nodes(evaluation.topology)
    early = _mocks_not_awaited(evaluation.topology)
    own = [node for node in evaluation.topology if node["id"] in evaluation.calls]
    clashes = {clash.second: clash.message for clash in find_export_clashes(own)}
    for node in evaluation.topology:
        position = evaluation.calls.get(node["id"])
        if position is None:
            continue  # of an imported suite, which is linted on its own
        details = [*_of_node(node, is_needed=node["id"] in needed), *_missing_files(suite, node)]
        if node["id"] in dead:
            details.append(("never_runs", dead[node["id"]]))
        if node["id"] in early:
            mock = early[node["id"]]
            details.append(("mock_not_awaited", f"it does not wait for {mock}; name it in `after`"))
        if node["id"] in clashes:
            details.append(("shared_export", clashes[node["id"]]))
        for code, detail in details:
            yield Diagnostic(
                code=code,
                severity="warning",
                message=f"{node['id']}: {detail}",
                file=position.get("file", ""),
                line=position.get("line", 0),
                column=position.get("column", 0),
            )


def _of_node(node: ResolvedNode, *, is_needed: bool) -> Iterator[tuple[str, str]]:
    image = node.get("image", "")
    if image and not _is_pinned(image):
        yield "floating_image", f'the image "{image}" can change at any time; name a version'
    if node["kind"] in ("service", "mock") and not is_needed:
        yield "unused_service", f"no step waits for this {node['kind']}; name it in an `after`"
    members = cast("Mapping[str, Any]", node)
    yield from _of_readiness(members.get("ready", {}), members.get("evaluation", {}))
    for name, value in members.get("env", {}).items():
        if looks_secret(name, value):
            yield "plain_secret", f"{name} looks like a secret; use `secretRefs` of a profile"
    if any(looks_secret("", word) for word in _words(node)):
        yield "plain_secret", "a command looks as if it held a secret; use `secretRefs` and env"


def _words(node: ResolvedNode) -> Iterator[str]:
    members = cast("Mapping[str, Any]", node)
    yield from members.get("command", ())
    yield from members.get("commands", ())


def _missing_files(suite: Suite, node: ResolvedNode) -> Iterator[tuple[str, str]]:
    """Yield the scripts of the suite that commands name and that do not exist."""
    named = {path for word in _words(node) for path in _SCRIPT.findall(word)}
    for path in sorted(named - suite.package.files.keys()):
        yield "missing_file", f"a command names {path}, which the suite does not have"


def _dead_nodes(topology: Iterable[ResolvedNode]) -> dict[str, str]:
    """Return the nodes that can never run, and why; `topology` is in the order of its levels."""
    kinds = {node["id"]: node["kind"] for node in topology}
    dead: dict[str, str] = {}
    for node in topology:
        handled = [name for name in node["onFailure"] if kinds.get(name) != "log"]
        both = [name for name in handled if name in node["after"] and len(handled) == 1]
        waits = [name for name in node["after"] if name in dead]
        if node["onFailure"] and not handled:
            dead[node["id"]] = "it runs if a log line fails, and log lines never fail"
        elif both:
            dead[node["id"]] = f"`after` needs {both[0]} healthy, and `on_failure` needs it failed"
        elif waits:
            dead[node["id"]] = f"it waits for {waits[0]}, which never runs"
    return dead


def _mocks_not_awaited(topology: Iterable[ResolvedNode]) -> dict[str, str]:
    """Return the steps that reset a mock or expect calls of it before it is healthy, by id."""
    awaited: dict[str, set[str]] = {}
    early: dict[str, str] = {}
    for node in topology:
        needs = node["dependsOn"]
        awaited[node["id"]] = {*needs}.union(*(awaited[need] for need in needs))
        named = [*node.get("resetMocks", ())]
        named += [mock for each in node.get("expectCalls", ()) for mock in each["mocks"]]
        if missing := [mock for mock in named if mock not in awaited[node["id"]]]:
            early[node["id"]] = missing[0]
    return early


def _of_readiness(
    ready: Mapping[str, Any], evaluation: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    if not ready:
        return
    if ready.get("startPeriodMs", 0) >= ready["timeoutMs"]:
        yield "never_ready", "`start_period` is not shorter than `timeout`, so no probe can pass"
    elif ready.get("intervalMs", 0) >= ready["timeoutMs"]:
        yield "never_ready", "`interval` is not shorter than `timeout`: one probe decides"
    awaited = ready.get("log")
    if awaited and any(text in awaited for text in evaluation.get("failOnLogs", ())):
        yield "never_ready", "the line that `ready` waits for is one of `fail_on_logs`"


def _is_pinned(image: str) -> bool:
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return bool(digest) or tag not in ("", "latest")


def _unused_files(suite: Suite, evaluations: Sequence[SuiteEvaluation]) -> Iterator[Diagnostic]:
    """Yield the scripts that no step runs under any profile and no other file names."""
    if not evaluations:
        return
    members = [cast("Mapping[str, Any]", node) for each in evaluations for node in each.topology]
    used = {node.get("file") for node in members if "sourceSuiteId" not in node}
    for path in sorted(suite.package.files):
        if not path.startswith(_SCRIPT_FOLDERS) or path in used:
            continue
        name = path.rpartition("/")[2]
        words = (name, name.rpartition(".")[0] or name)
        if not any(_mentions(suite, word, without=path) for word in words):
            yield Diagnostic(
                code="unused_file",
                severity="warning",
                message="no step runs this file, and no other file names it",
                file=path,
            )


def _diagnostics_of_profile(
    suite: Suite, profile: Profile, evaluations: Sequence[SuiteEvaluation]
) -> Iterator[Diagnostic]:
    path = f"profiles/{profile.file_name}"
    text = suite.package.text(path)
    known = {name for each in evaluations for node in each.topology for name in _names(node)}
    for step in profile.services:
        if known and step not in known:
            yield Diagnostic(
                code="unknown_step",
                severity="warning",
                message=f'"{step}" is not a step of this suite under any profile',
                file=path,
                line=_line_of(text, step),
            )
    for env in (profile.env, *profile.services.values()):
        for name, value in env.items():
            if value and looks_secret(name, value):
                yield Diagnostic(
                    code="plain_secret",
                    severity="warning",
                    message=f"{name} looks like a secret; use `secretRefs`",
                    file=path,
                    line=_line_of(text, name),
                )
    if _runs_scripts_only(evaluations):
        yield from _unread_variables(suite, profile, path)


def _unread_variables(suite: Suite, profile: Profile, path: str) -> Iterator[Diagnostic]:
    for name in profile.env:
        if not _mentions(suite, name, without="profiles/"):
            yield Diagnostic(
                code="unread_variable",
                severity="warning",
                message=f"no file of the suite reads {name}",
                file=path,
                line=_line_of(suite.package.text(path), name),
            )


def _diagnostics_of_dependencies(
    suite: Suite, importable: Mapping[str, Suite]
) -> Iterator[Diagnostic]:
    path = suite.package.first_of("dependencies.yaml", "dependencies.yml") or ""
    text = suite.package.text(path)
    for alias, declared in suite.dependencies.entries.items():
        line = _line_of(text, alias)
        for code, detail in _of_dependency(suite, alias, declared, importable.get(alias)):
            yield Diagnostic(code=code, severity="warning", message=detail, file=path, line=line)


def _of_dependency(
    suite: Suite, alias: str, declared: DeclaredDependency, imported: Suite | None
) -> Iterator[tuple[str, str]]:
    if not _mentions(suite, alias, without="dependencies."):
        yield "unused_dependency", f'{TOPOLOGY_FILE} does not import "{alias}"'
    if not lock_of(suite.dependencies, alias).digest and "@" not in declared.ref:
        yield "not_locked", f'"{alias}" is not locked; run `partita suite lock`'
    for name in declared.inputs:
        if imported is not None and not _mentions(imported, name):
            yield "unread_variable", f"no file of {imported.suite_id} reads the input {name}"


def _unused_pins(suite: Suite, evaluations: Iterable[SuiteEvaluation]) -> Iterator[Diagnostic]:
    """Yield the modules that the lock pins and that the suite loads under no profile."""
    loaded = {label for each in evaluations for label in each.loads}
    path = suite.package.first_of(*LOCK_FILES) or ""
    for label in suite.dependencies.modules:
        if label not in loaded:
            yield Diagnostic(
                code="unused_pin",
                severity="warning",
                message=f"{TOPOLOGY_FILE} does not load {label}",
                file=path,
                line=_line_of(suite.package.text(path), label),
            )


def _names(node: ResolvedNode) -> Iterable[str]:
    return node["id"], node["name"]


def _runs_scripts_only(evaluations: Sequence[SuiteEvaluation]) -> bool:
    """Tell whether every program is in the files of the suite; images may read any variable."""
    programs = ("file", "command", "commands")
    nodes = [
        node
        for each in evaluations
        for node in each.topology
        if node["kind"] not in _WITHOUT_PROGRAM
    ]
    return bool(nodes) and all(
        "sourceSuiteId" not in node and any(key in node for key in programs) for node in nodes
    )


def _mentions(suite: Suite, word: str, *, without: str = "") -> bool:
    """Tell whether a file has a word; those whose path begins with `without` do not count."""
    pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])")
    return any(
        pattern.search(content[:_WHOLE_FILE_LIMIT].decode(errors="replace"))
        for path, content in suite.package.files.items()
        if not (without and path.startswith(without))
    )


def _line_of(text: str, key: str) -> int:
    """Return the line of a key in YAML, or 0 for a key in a flow mapping."""
    match = re.search(rf"^[ \t]*['\"]?{re.escape(key)}['\"]?[ \t]*:", text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 0
