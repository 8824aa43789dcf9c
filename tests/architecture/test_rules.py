"""Rules that no import contract can say (docs/architecture.md, sections 4 to 6 and 10)."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

from kernel.errors import PlatformError
from kernel.problems import PROBLEMS
from tests.architecture.sources import lines_matching, modules, trees

EDGES = ("/rest/", "/views/", "/views.py", "/pipeline/", "/http/", "/management/", "/asgi.py")


def test_edges_do_not_touch_rows() -> None:
    offenders = [
        line
        for line in lines_matching(r"\.objects\b", "apps")
        if any(edge in line.split(":")[0] for edge in EDGES)
    ]
    assert not offenders, "\n".join(offenders)


def test_only_the_services_of_executions_write_a_status() -> None:
    offenders = [
        line
        for line in lines_matching(
            r"\b(execution|run|step|job)\w*\.(job_)?status\s*=[^=]|\.update\(.*status=", "apps"
        )
        if not line.startswith("apps/executions/services/")
    ]
    assert not offenders, "\n".join(offenders)


def test_no_row_locks_and_no_raw_sql() -> None:
    offenders = lines_matching(r"select_for_update|\.raw\(|RawSQL|\.extra\(|\.cursor\(", "apps")
    assert not offenders, "\n".join(offenders)


def test_settings_are_read_in_settings_and_conf_only() -> None:
    offenders = [
        line
        for line in lines_matching(r"django\.conf import|os\.environ|os\.getenv|environ\[")
        if not line.startswith("platform_site/") and not line.split(":")[0].endswith("/conf.py")
    ]
    assert not offenders, "\n".join(offenders)


def test_modules_stay_short() -> None:
    offenders = [
        f"{path}: {text.count(chr(10))} lines" for path, text in modules() if text.count("\n") > 400
    ]
    assert not offenders, "\n".join(offenders)


def test_every_problem_code_that_is_raised_has_a_row() -> None:
    for path, _text in modules("apps", "kernel", "sync_stack"):
        importlib.import_module(
            path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        )

    unlisted = {
        f"{error.__module__}.{error.__name__}: {error.code}"
        for error in descendants(PlatformError)
        if error.code not in PROBLEMS
    }
    assert not unlisted | set(codes_given_at_calls()), "\n".join(sorted(unlisted))


def descendants(kind: type[PlatformError]) -> Iterator[type[PlatformError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def codes_given_at_calls() -> Iterator[str]:
    """`SomePlatformError(…, code="…")` with a code that has no row."""
    names = {error.__name__ for error in descendants(PlatformError)} | {"PlatformError"}
    for path, tree in trees():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in names:
                for keyword in call.keywords:
                    value = keyword.value
                    if (
                        keyword.arg == "code"
                        and isinstance(value, ast.Constant)
                        and value.value not in PROBLEMS
                    ):
                        yield f"{path}:{call.lineno}: {value.value!r}"
