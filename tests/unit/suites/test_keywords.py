"""Every keyword of every call: what it takes, what it becomes, what it refuses.

(reference: control-plane 7.2, 7.3, 7.4)
"""

from __future__ import annotations

import pytest

from apps.suites.calls import node_kinds
from apps.suites.domain.calls import Rules, read_call
from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.values import Foreign, Handle

RULES = Rules(
    {
        "maxNodes": 2000,
        "maxTimeoutMs": 7_200_000,
        "defaultTimeoutMs": 600_000,
        "maxMemory": 4 * 2**30,
        "maxCpu": 4,
        "defaultImages": {"sh": "alpine:3.20", "py": "python:3.12-alpine"},
        "files": [
            "tasks/seed.sh",
            "tests/check.py",
            "services/api",
            "tasks/notes.txt",
            "api/pay.yaml",
        ],
    }
)
NODE = Handle(0, "service", "db")
KINDS = [(name, node_kinds[name]) for name in node_kinds]
MOCK = Handle(1, "mock", "psp")
CALLS = [f"{name}.{each}" for name, kind in KINDS for each in kind.every_function]
MOCKS = ("mock.serve", "service.mock")
UNAVAILABLE = [f"{name}.{each}" for name, kind in KINDS for each in kind.unavailable]


def node(call, **keywords):
    return read_call(call, [], keywords, RULES)


@pytest.mark.parametrize(
    ("call", "keywords", "wire"),
    [
        ("task.run", {"name": "seed"}, {"name": "seed"}),
        ("task.run", {"id": "seed"}, {"name": "seed"}),
        ("task.run", {"name_or_id": "seed"}, {"name": "seed"}),
        ("task.run", {"after": NODE}, {"after": [{"node": 0}]}),
        ("task.run", {"after": "later"}, {"after": [{"id": "later"}]}),
        (
            "task.run",
            {"after": [NODE, ["a", ["b"]]]},
            {"after": [{"node": 0}, {"id": "a"}, {"id": "b"}]},
        ),
        ("task.run", {"on_failure": [NODE]}, {"onFailure": [{"node": 0}]}),
        ("task.run", {"continue_on_failure": True}, {"continueOnFailure": True}),
        ("task.run", {"timeout": "1m30s"}, {"timeoutMs": 90_000}),
        ("task.run", {"timeout": 0.5}, {"timeoutMs": 500}),
        ("task.run", {}, {"timeoutMs": 600_000, "retries": 0, "idempotent": False}),
        ("service.run", {}, {"timeoutMs": 60_000, "idempotent": True}),
        ("task.run", {"retries": 10}, {"retries": 10}),
        ("test.run", {"idempotent": True}, {"idempotent": True}),
        (
            "task.run",
            {"env": {"A": "x", "B": 1, "C": 1.5, "D": True, "E": ""}},
            {"env": {"A": "x", "B": "1", "C": "1.5", "D": "true", "E": ""}},
        ),
        ("task.run", {"image": "busybox:1.36"}, {"image": "busybox:1.36"}),
        ("task.run", {"command": ["a", "b c"]}, {"command": ["a", "b c"]}),
        ("task.run", {"command": "a 'b c'"}, {"command": ["a", "b c"]}),
        ("task.run", {"commands": ["a", "b"]}, {"commands": ["a", "b"], "image": "alpine:3.20"}),
        ("task.run", {"file": "seed.sh"}, {"file": "tasks/seed.sh", "image": "alpine:3.20"}),
        ("test.run", {"file": "tasks/seed.sh"}, {"file": "tasks/seed.sh"}),
        (
            "test.run",
            {"file": "check.py"},
            {"file": "tests/check.py", "image": "python:3.12-alpine"},
        ),
        ("service.run", {"file": "api"}, {"file": "services/api", "image": "alpine:3.20"}),
        ("service.run", {"file": "api", "image": "x"}, {"image": "x"}),
        ("service.run", {"ports": [80, "81/tcp", "53/udp"]}, {"ports": [80, 81, "53/udp"]}),
        (
            "service.run",
            {"ports": ["53/udp", 80]},
            {"ready": {"tcp": 80, "intervalMs": 500, "startPeriodMs": 0, "timeoutMs": 60_000}},
        ),
        (
            "service.run",
            {"ready": {"http": "/up", "status": 204}, "ports": [80], "timeout": "5s"},
            {
                "ready": {
                    "http": "/up",
                    "port": 80,
                    "status": [204],
                    "intervalMs": 500,
                    "startPeriodMs": 0,
                    "timeoutMs": 5_000,
                },
                "timeoutMs": 5_000,
            },
        ),
        (
            "service.run",
            {
                "ready": {
                    "command": "test -f x",
                    "interval": 1,
                    "start_period": "2s",
                    "timeout": "9s",
                }
            },
            {
                "ready": {
                    "command": ["sh", "-c", "test -f x"],
                    "intervalMs": 1000,
                    "startPeriodMs": 2000,
                    "timeoutMs": 9000,
                },
                "timeoutMs": 9000,
            },
        ),
        ("service.run", {"ready": {"command": ["a"]}}, {"timeoutMs": 60_000}),
        (
            "task.run",
            {"resources": {"cpu": "500m", "memory": "512Mi"}},
            {"resources": {"cpu": 0.5, "memory": 2**29}},
        ),
        ("task.run", {"resources": {"cpu": 4}}, {"resources": {"cpu": 4.0}}),
        ("test.run", {"reset_mocks": []}, {"after": []}),
        (
            "task.run",
            {"reset_mocks": [MOCK, Handle(2, "suite", "pay"), "late"]},
            {"resetMocks": [{"node": 1}, {"node": 2}, {"id": "late"}]},
        ),
        ("mock.serve", {}, {"kind": "mock", "variant": "mock", "timeoutMs": 30_000}),
        ("service.mock", {}, {"kind": "mock", "variant": "mock", "retries": 0}),
        ("mock.serve", {"timeout": "5s"}, {"timeoutMs": 5_000}),
        ("service.mock", {"surface": "psp"}, {"surfaces": ["psp"]}),
        ("mock.serve", {"surface": ["a", "b", "a"]}, {"surfaces": ["a", "b"]}),
        (
            "service.wiremock",
            {},
            {
                "kind": "service",
                "variant": "wiremock",
                "image": "wiremock/wiremock:3.9.2",
                "ports": [8080],
                "ready": {
                    "http": "/__admin/health",
                    "port": 8080,
                    "intervalMs": 500,
                    "startPeriodMs": 0,
                    "timeoutMs": 60_000,
                },
            },
        ),
        ("service.wiremock", {"image": "mine:1", "ports": [9]}, {"image": "mine:1", "ports": [9]}),
        ("service.wiremock", {"command": "--verbose"}, {"command": ["--verbose"]}),
        (
            "service.prism",
            {"contract": "pay.yaml"},
            {
                "variant": "prism",
                "image": "stoplight/prism:5",
                "ports": [4010],
                "command": [
                    "mock",
                    "-h",
                    "0.0.0.0",
                    "-p",
                    "4010",
                    "/partita/workspace/api/pay.yaml",
                ],
            },
        ),
        ("service.prism", {"command": ["proxy", "x"]}, {"command": ["proxy", "x"]}),
        ("service.custom", {"image": "mockoon:9"}, {"variant": "custom", "image": "mockoon:9"}),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK}]},
            {"expectCalls": [{"mocks": [{"node": 1}], "atLeast": 1}]},
        ),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "valid": True}, {"mock": MOCK, "valid": False}]},
            {
                "expectCalls": [
                    {"mocks": [{"node": 1}], "atLeast": 1, "valid": True},
                    {"mocks": [{"node": 1}], "atLeast": 1},
                ]
            },
        ),
        (
            "task.run",
            {
                "expect_calls": [
                    {
                        "mock": "psp",
                        "operation": "createOrder",
                        "count": 2,
                        "example": "paid",
                        "headers": {"X-Key": "a"},
                        "body": {"items[0].price": 5, "gift": True},
                    },
                    {"mock": MOCK, "method": "POST", "path": "/orders/{id}", "at_most": 3},
                    {"mock": MOCK, "at_least": 2, "at_most": 3},
                ]
            },
            {
                "expectCalls": [
                    {
                        "mocks": [{"id": "psp"}],
                        "operation": "createOrder",
                        "atLeast": 2,
                        "atMost": 2,
                        "example": "paid",
                        "headers": {"X-Key": "a"},
                        "body": {"items[0].price": "5", "gift": "true"},
                    },
                    {
                        "mocks": [{"node": 1}],
                        "method": "POST",
                        "path": "/orders/{id}",
                        "atLeast": 0,
                        "atMost": 3,
                    },
                    {"mocks": [{"node": 1}], "atLeast": 2, "atMost": 3},
                ]
            },
        ),
        ("task.run", {}, {"evaluation": {"expectExit": 0}}),
        (
            "task.run",
            {"expect_exit": 3, "expect_logs": "a", "fail_on_logs": ["b", "c"]},
            {"evaluation": {"expectExit": 3, "expectLogs": ["a"], "failOnLogs": ["b", "c"]}},
        ),
        ("service.run", {"expect_logs": ["up"]}, {"evaluation": {"expectLogs": ["up"]}}),
        (
            "test.run",
            {
                "exports": [
                    {"path": "a.xml"},
                    {"path": "b", "name": "n", "on": "always", "format": "junit", "required": True},
                ]
            },
            {
                "artifactExports": [
                    {"path": "a.xml", "on": "success", "format": "raw", "required": False},
                    {"path": "b", "name": "n", "on": "always", "format": "junit", "required": True},
                ]
            },
        ),
        (
            "log.warn",
            {"message": "hi {{suite}}"},
            {"kind": "log", "variant": "warn", "message": "hi {{suite}}"},
        ),
    ],
)
def test_a_good_keyword_becomes_its_wire_form(call, keywords, wire):
    assert wire.items() <= node(call, **keywords).items()


@pytest.mark.parametrize(
    ("call", "keywords", "code", "says"),
    [
        ("task.run", {"name": 1}, "wrong_type", "task.run: name must be a string, not int"),
        ("task.run", {"name": "a/b"}, "invalid_value", "not a valid node id"),
        ("task.run", {"name": "a" * 64}, "invalid_value", "not a valid node id"),
        ("task.run", {"name": "a\n"}, "invalid_value", "not a valid node id"),
        ("task.run", {"name": ""}, "invalid_value", "not a valid node id"),
        ("task.run", {"name": "a", "id": "b"}, "invalid_value", "name: set twice"),
        ("task.run", {"after": 3}, "wrong_type", "a node, an id, or a list of them"),
        ("task.run", {"after": [None]}, "wrong_type", "not None"),
        ("task.run", {"after": Foreign("function")}, "wrong_type", "not function"),
        ("task.run", {"on_failure": {}}, "wrong_type", "on_failure"),
        ("task.run", {"continue_on_failure": 1}, "wrong_type", "True or False, not int"),
        ("task.run", {"timeout": "soon"}, "invalid_value", "'soon'"),
        ("task.run", {"timeout": 0}, "invalid_value", "more than 0"),
        ("task.run", {"timeout": -1}, "invalid_value", "more than 0"),
        ("task.run", {"timeout": "3h"}, "invalid_value", "limit of 2 h"),
        ("task.run", {"timeout": 1e308}, "invalid_value", "timeout"),
        ("task.run", {"timeout": "9" * 500 + "h"}, "invalid_value", "timeout"),
        ("task.run", {"timeout": True}, "wrong_type", "a duration"),
        ("task.run", {"retries": 11}, "invalid_value", "between 0 and 10"),
        ("task.run", {"retries": "1"}, "wrong_type", "an int, not string"),
        ("task.run", {"retries": True}, "wrong_type", "an int, not bool"),
        ("task.run", {"idempotent": "yes"}, "wrong_type", "True or False"),
        (
            "task.run",
            {"env": {"A": ["x"]}},
            "wrong_type",
            'env["A"] must be a string, number or bool',
        ),
        ("task.run", {"env": {"A": None}}, "wrong_type", "not None"),
        (
            "task.run",
            {"env": {"A=B": "x"}},
            "invalid_value",
            "not a valid name for an environment variable",
        ),
        ("task.run", {"env": {"": "x"}}, "invalid_value", "not a valid name"),
        ("task.run", {"env": {"A": "x\0"}}, "invalid_value", "NUL"),
        ("task.run", {"env": {"A": float("inf")}}, "invalid_value", "finite"),
        ("task.run", {"env": "A=1"}, "wrong_type", "a dict, not string"),
        ("task.run", {"image": 1}, "wrong_type", "image"),
        ("task.run", {"image": ""}, "invalid_value", "must not be empty"),
        ("task.run", {"image": "a b"}, "invalid_value", "not an image reference"),
        ("task.run", {"command": []}, "invalid_value", "must name a program"),
        ("task.run", {"command": "'a"}, "invalid_value", "No closing quotation"),
        ("task.run", {"command": [1]}, "wrong_type", "command[0]"),
        ("task.run", {"commands": "a"}, "wrong_type", "a list of strings, not string"),
        (
            "task.run",
            {"command": "a", "commands": ["b"]},
            "invalid_value",
            "only one of command, commands",
        ),
        (
            "task.run",
            {"command": "a", "file": "seed.sh"},
            "invalid_value",
            "only one of command, file",
        ),
        ("task.run", {"file": "none.sh"}, "file_not_found", "no file tasks/none.sh"),
        ("task.run", {"file": "tests/none.sh"}, "file_not_found", "no file tests/none.sh"),
        ("task.run", {"file": "../seed.sh"}, "invalid_value", "inside the suite"),
        ("task.run", {"file": "/etc/passwd"}, "invalid_value", "inside the suite"),
        ("task.run", {"file": "notes.txt"}, "invalid_value", 'no interpreter for ".txt"'),
        ("task.run", {"file": 3}, "wrong_type", "file"),
        ("service.run", {"ports": 80}, "wrong_type", "a list of ports"),
        ("service.run", {"ports": [0]}, "invalid_value", "between 1 and 65535"),
        ("service.run", {"ports": ["80"]}, "invalid_value", "not a port"),
        ("service.run", {"ports": ["70000/tcp"]}, "invalid_value", "not a port"),
        ("service.run", {"ports": [80.0]}, "wrong_type", "ports[0] must be an int"),
        ("service.run", {"ready": "http"}, "wrong_type", "a dict"),
        ("service.run", {"ready": {}}, "missing_argument", "one of http, tcp, log, command"),
        ("service.run", {"ready": {"tcp": 1, "log": "x"}}, "invalid_value", "only one of tcp, log"),
        (
            "service.run",
            {"ready": {"htp": "/"}},
            "unknown_keyword",
            'unknown key "htp"; known: command',
        ),
        (
            "service.run",
            {"ready": {"http": "up"}, "ports": [1]},
            "invalid_value",
            'must start with "/"',
        ),
        ("service.run", {"ready": {"http": "/"}}, "missing_argument", "requires `port` or `ports`"),
        (
            "service.run",
            {"ready": {"tcp": 80, "port": 80}},
            "invalid_value",
            "port is allowed with http",
        ),
        (
            "service.run",
            {"ready": {"log": "x", "status": 200}},
            "invalid_value",
            "status is allowed with http",
        ),
        ("service.run", {"ready": {"log": ""}}, "invalid_value", "must not be empty"),
        (
            "service.run",
            {"ready": {"http": "/", "status": 99, "port": 1}},
            "invalid_value",
            "between 100 and 599",
        ),
        (
            "service.run",
            {"ready": {"http": "/", "status": [], "port": 1}},
            "invalid_value",
            "at least one status",
        ),
        ("service.run", {"ready": {"tcp": 1, "interval": 0}}, "invalid_value", "more than 0"),
        ("service.run", {"ready": {"tcp": 1, "timeout": "3h"}}, "invalid_value", "limit"),
        (
            "service.run",
            {"ready": {"tcp": 1, "timeout": "3s"}, "timeout": "3s"},
            "invalid_value",
            "set only one",
        ),
        ("task.run", {"resources": {"gpu": 1}}, "unknown_keyword", "known: cpu, memory"),
        ("task.run", {"resources": {"cpu": 5}}, "invalid_value", "limit of 4"),
        ("task.run", {"resources": {"cpu": "much"}}, "invalid_value", "much"),
        ("task.run", {"resources": {"cpu": True}}, "wrong_type", "CPUs"),
        ("task.run", {"resources": {"memory": "8Gi"}}, "invalid_value", "limit of 4096 MiB"),
        ("task.run", {"resources": {"memory": 0}}, "invalid_value", "1 byte"),
        ("task.run", {"resources": {"memory": 1.5}}, "wrong_type", "512Mi"),
        ("task.run", {"resources": []}, "wrong_type", "a dict"),
        ("test.run", {"reset_mocks": [NODE]}, "reset_mocks_invalid", '"db" is a service'),
        ("test.run", {"reset_mocks": NODE}, "wrong_type", "a list of mock"),
        ("test.run", {"reset_mocks": [1]}, "wrong_type", "a mock or suite node"),
        ("mock.serve", {"surface": []}, "invalid_value", "at least one surface"),
        ("mock.serve", {"surface": "a/b"}, "invalid_value", "not an id of a surface"),
        ("mock.serve", {"surface": 1}, "wrong_type", "a string or a list"),
        ("service.mock", {"timeout": "3h"}, "invalid_value", "limit"),
        ("service.prism", {}, "missing_argument", "contract is required"),
        ("service.prism", {"contract": "no.yaml"}, "file_not_found", "api/no.yaml"),
        ("service.prism", {"contract": "tasks/seed.sh"}, "file_not_found", "api/"),
        (
            "service.prism",
            {"contract": "pay.yaml", "command": ["x"]},
            "invalid_value",
            "only one of command, contract",
        ),
        ("test.run", {"expect_calls": MOCK}, "wrong_type", "a list of dicts"),
        ("test.run", {"expect_calls": [MOCK]}, "wrong_type", "[0] must be a dict"),
        ("test.run", {"expect_calls": [{}]}, "missing_argument", "[0]: mock is required"),
        ("test.run", {"expect_calls": [{"mock": NODE}]}, "expect_calls_invalid", "a service"),
        ("test.run", {"expect_calls": [{"mock": MOCK, "times": 1}]}, "unknown_keyword", "at_least"),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "count": 1, "at_least": 1}]},
            "invalid_value",
            "count stands alone",
        ),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "at_least": 3, "at_most": 2}]},
            "invalid_value",
            "less than",
        ),
        ("test.run", {"expect_calls": [{"mock": MOCK, "count": -1}]}, "invalid_value", "0 and"),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "method": "post"}]},
            "invalid_value",
            "such as POST",
        ),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "path": "orders"}]},
            "invalid_value",
            "start with",
        ),
        ("test.run", {"expect_calls": [{"mock": MOCK, "body": "x"}]}, "wrong_type", "a dict"),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "body": {"a..b": 1}}]},
            "invalid_value",
            "such as items[0].price",
        ),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK, "body": {"a": [1]}}]},
            "wrong_type",
            'body["a"]',
        ),
        (
            "test.run",
            {"expect_calls": [{"mock": MOCK}] * 101},
            "invalid_value",
            "more than 100",
        ),
        ("task.run", {"expect_exit": 256}, "invalid_value", "between 0 and 255"),
        ("task.run", {"expect_logs": 1}, "wrong_type", "a string or a list of strings"),
        ("task.run", {"expect_logs": [""]}, "invalid_value", "must not be empty"),
        ("task.run", {"fail_on_logs": [1]}, "wrong_type", "fail_on_logs"),
        ("task.run", {"exports": {"path": "x"}}, "wrong_type", "a list of dicts"),
        ("task.run", {"exports": [{"path": "../x"}]}, "invalid_value", 'must not contain ".."'),
        (
            "task.run",
            {"exports": [{"path": "$PARTITA_ARTIFACTS_DIR/x"}]},
            "invalid_value",
            "is not expanded; a relative path is looked for",
        ),
        ("task.run", {"exports": [{"path": "x" * 1001}]}, "invalid_value", "more than 1000"),
        ("task.run", {"exports": [{}]}, "missing_argument", "exports[0]: path is required"),
        (
            "task.run",
            {"exports": [{"path": "x", "on": "error"}]},
            "invalid_value",
            "must be one of success",
        ),
        (
            "task.run",
            {"exports": [{"path": "x", "format": "xml"}]},
            "invalid_value",
            "must be one of raw",
        ),
        (
            "task.run",
            {"exports": [{"path": "x", "to": "y"}]},
            "unknown_keyword",
            "known: format, name",
        ),
        ("log.info", {"message": 1}, "wrong_type", "message"),
    ],
)
def test_a_bad_keyword_is_refused_in_words(call, keywords, code, says):
    with pytest.raises(TopologyProblem) as caught:
        node(call, **keywords)

    assert caught.value.code == code
    assert says in caught.value.message


@pytest.mark.parametrize("call", [call for call in CALLS if call != "suite.run"])
@pytest.mark.parametrize("keyword", ["imge", "surfaces", "ref", "plan", "target", "rps", "_handle"])
def test_an_unknown_keyword_names_the_known_ones(call, keyword):
    """Invariant 26."""
    with pytest.raises(TopologyProblem) as caught:
        node(call, **{keyword: "x"})

    name, _, function = call.partition(".")
    kind = node_kinds["mock"] if call in MOCKS else node_kinds[name]
    known = ", ".join(kind.keyword_names(function))
    assert caught.value.code == "unknown_keyword"
    message, _, advice = caught.value.message.partition("; did you mean ")
    assert message == f'{call}: unknown keyword "{keyword}"; known: {known}'
    assert advice in ("", "image?", "surface?")


@pytest.mark.parametrize(
    ("call", "keyword"),
    [
        ("task.run", "ports"),
        ("test.run", "ready"),
        ("service.run", "idempotent"),
        ("service.run", "expect_exit"),
        ("service.run", "reset_mocks"),
        ("service.run", "contract"),
        ("mock.serve", "env"),
        ("mock.serve", "retries"),
        ("mock.serve", "image"),
        ("log.info", "expect_calls"),
        ("task.run", "message"),
        ("log.info", "timeout"),
        ("log.info", "image"),
        ("log.info", "retries"),
    ],
)
def test_a_keyword_of_another_kind_is_unknown(call, keyword):
    with pytest.raises(TopologyProblem, match="unknown keyword"):
        node(call, **{keyword: None})


@pytest.mark.parametrize("call", UNAVAILABLE)
def test_what_is_not_there_yet_says_so(call):
    with pytest.raises(TopologyProblem, match="is not available yet") as caught:
        read_call(call, ["x"], {"anything": 1}, RULES)

    assert caught.value.code == "unsupported_node"


def test_the_first_positional_argument_is_the_name():
    assert read_call("task.run", ["seed"], {}, RULES)["name"] == "seed"


def test_the_first_positional_argument_of_log_is_its_message():
    assert dict(read_call("log.info", ["hello"], {}, RULES))["message"] == "hello"


def test_a_second_positional_argument_is_refused():
    with pytest.raises(TopologyProblem, match="one positional argument"):
        read_call("task.run", ["seed", "image"], {}, RULES)


def test_a_name_given_twice_is_refused():
    with pytest.raises(TopologyProblem, match="set twice"):
        read_call("task.run", ["seed"], {"name": "seed"}, RULES)
