"""suite.star through the real evaluator: the language, what it sees, where errors are."""

from __future__ import annotations

import os
import threading

import pytest

from apps.suites import selectors
from apps.suites.evaluator.process import CHILDREN

pytestmark = pytest.mark.slow  # a process for each evaluation

T = 'task.run("t", image="x")\n'


def test_helpers_loops_and_comprehensions_make_nodes(workspace):
    nodes = workspace.topology(
        """
def worker(n, **kw):
    return task.run(f"worker-{n}", image="busybox:1.36", **kw)

db = service.run(image="busybox:1.36", ports=[5432])
workers = [worker(n, after=db) for n in range(3)]
for zone in ["eu", "us"]:
    test.run("check-" + zone, image="x", after=[workers, "db"])
if true:
    log.info("done", after=["check-eu"])
last = null
last = false
"""
    )

    assert [(node["id"], node["level"]) for node in nodes] == [
        ("db", 0),
        ("worker-0", 1),
        ("worker-1", 1),
        ("worker-2", 1),
        ("check-eu", 2),
        ("check-us", 2),
        ("node_7", 3),
    ]
    assert nodes[4]["dependsOn"] == ["worker-0", "worker-1", "worker-2", "db"]


def test_a_node_knows_the_id_it_will_have(workspace):
    nodes = workspace.topology(
        """
db = service.run(image="postgres:16", ports=[5432], env={"A": 1})
a, longer = task.run(image="x"), task.run(image="x")
other = longer
test.run(
    "t", image=db.image, after=[db.id, longer.name],
    env={
        "HOST": db.name, "OTHER": longer.id, "A": db.env["A"], "P": db.ports[0],
        "K": db.kind + db.variant,
    },
)
"""
    )

    assert nodes[-1]["dependsOn"] == ["db", "longer"]
    assert nodes[-1]["image"] == "postgres:16"
    assert nodes[-1]["env"] == {
        "HOST": "db",
        "OTHER": "longer",
        "A": "1",
        "P": "5432",
        "K": "servicerun",
    }


@pytest.mark.parametrize(
    "text",
    ["x = 1; db = task.run()", "[q, (db, r)] = [1, (task.run(), 2)]"],
)
def test_a_node_takes_its_name_from_any_assignment(workspace, text):
    assert workspace.topology(text)[0]["id"] == "db"


def test_a_report_is_kept_of_a_failed_step_too_unless_the_suite_says_otherwise(workspace):
    (node,) = workspace.topology(
        't = test.run("t", image="x").export("a.xml", format="junit").export("b.txt")\n'
        't.export("c.json", format="ctrf", on="success")\n'
    )

    assert [(each["path"], each["on"]) for each in node["artifactExports"]] == [
        ("a.xml", "always"), ("b.txt", "success"), ("c.json", "success"),
    ]  # fmt: skip


def test_export_adds_an_artifact_and_returns_the_node(workspace):
    nodes = workspace.topology(
        'first = test.run("t", image="x").export("a.xml", format="junit", on="always")\n'
        't = first.export("b", name="B")\n'
        'task.run("u", image="x", after=t)\n'
    )

    assert nodes[0]["artifactExports"] == [
        {"path": "a.xml", "on": "always", "format": "junit", "required": False},
        {"path": "b", "name": "B", "on": "success", "format": "raw", "required": False},
    ]
    assert nodes[1]["after"] == ["t"]


def test_runtime_can_be_loaded_under_any_scope(workspace):
    definition = workspace.definition(
        'load("@partita/runtime", "task", run="service")\nload("@me/runtime", "utils")\n'
        'load("@partita/runtime", "env")\n' + T + 'run.run("s", image="x")\n'
    )

    assert definition["contracts"] == ["@partita/runtime", "@me/runtime"]
    assert definition["modules"] == ["runtime"]
    assert len(definition["topology"]) == 2


def test_utils_are_there(workspace):
    nodes = workspace.topology(
        """
merged = utils.merge({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "b": 2})
task.run(
    utils.sanitize("Seed The DB!"), image="x",
    env={
        "M": str(merged), "Q": utils.quoted("it's"),
        "U": str(utils.unique(["a"], "a") + utils.unique(["a"], "b")),
        "S": utils.sql_value(None), "P": utils.sql_predicate({"a": [1, 2]}),
        "J": utils.js_value({"a": None}),
    },
)
"""
    )

    assert nodes[0]["id"] == "seed-the-db"
    assert nodes[0]["env"] == {
        "M": '{"a": {"x": 1, "y": 2}, "b": 2}',
        "Q": "'it'\\''s'",
        "U": '["a", "a", "b"]',
        "S": "NULL",
        "P": '"a" IN (1, 2)',
        "J": '{"a": null}',
    }


def test_env_is_that_of_the_profile_and_nothing_else(workspace, monkeypatch):
    """Invariant 21: the environment of the process is never readable."""
    monkeypatch.setenv("PARTITA_CANARY", "secret")
    workspace.add(
        "s",
        {
            "suite.star": 'print(env)\ntask.run("t", image="x", env={"A": env.get("A"),'
            ' "H": env.get("HOME", "none"),'
            ' "P": str("PATH" in env), "C": env.get("PARTITA_CANARY", "none")})\n',
            "profiles/a.yaml": "env: {A: yes}",
        },
    )

    resolved = selectors.resolve("s")

    assert resolved.topology[0]["env"] == {"A": "yes", "H": "none", "P": "False", "C": "none"}
    assert resolved.print_lines == ('{"A": "yes"}',)
    assert os.environ["PARTITA_CANARY"] == "secret"


def test_a_launch_may_bring_its_own_env(workspace):
    workspace.add("s", 'task.run("t-" + env.get("WHO", "nobody"), image="x")')

    assert selectors.resolve("s", profile_env={"WHO": "ada"}).topology[0]["id"] == "t-ada"
    assert selectors.resolve("s").topology[0]["id"] == "t-nobody"


@pytest.mark.slow
def test_print_keeps_a_hundred_lines_and_counts_the_others(workspace):
    workspace.add("s", 'for n in range(200):\n    print("line", n, sep="-")\n' + T)

    printed = selectors.resolve("s").print_lines

    assert (len(printed), printed[0], printed[98]) == (100, "line-0", "line-98")
    assert printed[99] == "print: 101 further lines were dropped"


def test_a_printed_line_is_cut_after_a_whole_character(workspace):
    workspace.add("s", 'print("ü" * 9000)\n' + T)

    (line,) = selectors.resolve("s").print_lines

    assert line == "ü" * 4096


def test_a_suite_may_end_in_any_expression(workspace):
    assert workspace.topology(T + "[task.run]\nlambda x: x")[0]["id"] == "t"


def test_windows_line_ends_are_fine(workspace):
    assert workspace.topology('x = 1\r\ntask.run(\r\n  "t",\r\n image="x")\r\n')[0]["id"] == "t"


@pytest.mark.parametrize(
    ("text", "code", "says", "line", "column"),
    [
        ("x = (1,\n" + T, "syntax_error", "ends inside a statement", 2, 24),
        (T + "x = [1,\n", "syntax_error", "ends inside a statement", 2, 7),
        (T + "x = [1\n", "syntax_error", "ends inside a statement", 2, 6),
        (T + "def f():\n", "syntax_error", "ends inside a statement", 2, 8),
        ("while True:\n    pass\n", "syntax_error", "while", 1, 1),
        ("import os\n", "syntax_error", "import", 1, 1),
        ('x = "abc\n', "syntax_error", "unfinished string", 1, 5),
        (T + "\n\n  x = nope\n", "syntax_error", "", 4, 1),
        (T + "x = nope\n", "eval_error", "`nope` not found", 2, 5),
        ("def f():\n    return 1 // 0\nf()\n", "eval_error", "division by zero", 2, 12),
        ("x = {'a': 1, 'a': 2}\n", "eval_error", "repeated", 1, 14),
        ('env["X"] = "y"\n', "eval_error", "Immutable", 1, 1),
        ('x = service.run("a")\nx.name = "b"\n', "eval_error", "name", 2, 1),
        ('service("a")\n', "eval_error", "use service.run", 1, 1),
        ('container("a")\n', "eval_error", "use service.run", 1, 1),
        ('  \nx = 1\nscript("a")\n', "eval_error", "use task.run", 3, 1),
        ("scenario()\n", "eval_error", "use test.run", 1, 1),
        (
            'service.start("a")\n',
            "eval_error",
            "unknown call service.start; known: service.run, service.wiremock",
            1,
            1,
        ),
        ('fail("no", "way")\n', "fail_called", "no way", 1, 1),
        ('fail("x\\n --> suite.star:9:9\\n  * suite.star:8, in f")\n', "fail_called", "x", 1, 1),
        ('security.scan("x")\n', "unsupported_node", "run a scanner image with test.run", 1, 1),
        (
            'x = 1; load.stress("x")\n',
            "unsupported_node",
            "traffic.stress is not available yet",
            1,
            8,
        ),
        ('a = suite.run(ref="b")\n', "dependency_missing", 'no entry "b"', 1, 5),
        ('mock.server("m")\n', "eval_error", "did you mean mock.serve?", 1, 1),
        ('service.mock("m", image="x")\n', "unknown_keyword", "known: after", 1, 1),
        ('service.prism("p")\n', "missing_argument", "contract is required", 1, 1),
        (
            'm = mock.serve()\nd = task.run("d")\n'
            'test.run("t", expect_calls=[{"mock": "d"}], reset_mocks=[m])\n',
            "expect_calls_invalid",
            '"d", which is a task',
            3,
            1,
        ),
        ('task.run("a", imge=1)\n', "unknown_keyword", 'unknown keyword "imge"', 1, 1),
        (
            'def f():\n    return [\n        task.run("a", retries="x")]\nf()\n',
            "wrong_type",
            "retries",
            3,
            9,
        ),
        ('task.run("a", file="no.sh")\n', "file_not_found", "tasks/no.sh", 1, 1),
        ('x = task.run("a").export("")\n', "invalid_value", "path", 1, 18),
        ('log.info("a").export("x")\n', "unknown_keyword", "no artifacts", 1, 14),
        ("x = utils.sql_value([])\n", "wrong_type", "sql_value", 1, 5),
        ('task.run("a", env={1: "x"})\n', "wrong_type", "a dict key must be a string", 1, 1),
        ('task.run("a", after=len)\n', "wrong_type", "not function", 1, 1),
        ('task.run("a")\n\ntask.run("a")\n', "duplicate_step", '"a" is used twice', 3, 1),
        ('x = task.run("a", after="b")\n', "unknown_dependency", '"b"', 1, 5),
        ('task.run("execution")\n', "reserved_step_id", "reserved", 1, 1),
        (
            'task.run("b", after="c")\ntask.run("c", after="b")\n',
            "dependency_cycle",
            "b -> c -> b",
            1,
            1,
        ),
        (
            'd = service.run("d")\ntest.run("t", reset_mocks=[d])\n',
            "reset_mocks_invalid",
            '"d"',
            2,
            1,
        ),
        (T + 'load("@acme/things", "x")\n', "module_not_found", "pins none", 2, 1),
        ('load("things.star", "x")\n', "module_not_found", "@scope/module", 1, 1),
        ('load("prelude", "_record")\n', "module_not_found", "@scope/module", 1, 1),
        ('load("epilogue", "bound_by_the_evaluator")\n', "module_not_found", "@scope/module", 1, 1),
        ('load("@partita/runtime", "nope")\n', "symbol_not_found", '"nope"', 1, 26),
        ("x = 1\n", "no_nodes", "declares no nodes", None, None),
        ("", "no_nodes", "declares no nodes", None, None),
    ],
)
def test_an_error_has_code_reason_and_place(workspace, text, code, says, line, column):
    error = workspace.error(text)

    assert error["code"] == code
    assert error["message"].startswith("invalid suite topology: ")
    assert says in error["message"]
    assert (error["file"], error.get("line"), error.get("column")) == ("suite.star", line, column)
    if line:
        assert error["sourceLine"] == text.split("\n")[line - 1]


def test_a_syntax_error_does_not_list_the_whole_grammar(workspace):
    assert len(workspace.error("x = 1 2\n")["message"]) < 100


def test_the_limits_of_the_installation_hold(workspace, settings):
    settings.STEP_MAX_TIMEOUT_S = 10
    settings.STEP_MAX_CPU = 1
    settings.STEP_MAX_MEMORY = 2**20

    for keyword in ('timeout="11s"', 'resources={"cpu": 2}', 'resources={"memory": "2Mi"}'):
        assert workspace.error(f'task.run("t", {keyword})')["code"] == "invalid_value"


def test_two_resolutions_of_one_suite_are_equal(workspace, library):
    """Invariant 28."""
    text = "".join(
        f'task.run("t{n}", image="x", env={{"B": {n}, "A": 1}},'
        f" after={[f't{m}' for m in range(n)]})\n"
        for n in reversed(range(20))
    )
    workspace.add("s", text)

    first = selectors.resolve("s")
    library._evaluations._kept.clear()
    library._prepared.clear()
    second = selectors.resolve("s")

    assert first.topology == second.topology
    assert first.topology is not second.topology
    assert list(first.definition) == list(second.definition)
    assert first.definition == second.definition


def test_what_was_canceled_at_the_end_is_evaluated_by_a_later_call(workspace, library):
    workspace.add("s", T)
    (suite,) = library.suites()
    release = threading.Event()
    for _ in range(CHILDREN):
        library._evaluations._executor("whole").submit(release.wait, 10)
    waiting = library.snapshot().start_default(suite).future

    library.close()
    release.set()

    assert waiting.cancelled()
    evaluation = library.evaluate(suite).evaluation
    assert evaluation is not None
    assert [node["id"] for node in evaluation.topology] == ["t"]
