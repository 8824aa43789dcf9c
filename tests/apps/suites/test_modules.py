"""Built-in modules: their nodes, their errors, and what their programs do on real servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from apps.suites import api
from tests.support import module_reference
from tests.support.parts import need
from tests.support.servers import free_port

pytestmark = pytest.mark.slow  # a process for each evaluation

POSTGRES = (
    'load("@partita/postgres", "pg", "connect", "query", "insert", "upsert", "select", '
    '"delete", "url")\n'
)
REDIS = (
    'load("@partita/redis", "redis", "wait_ready", "set_key", "set_keys", "delete_key", '
    '"flush_db", "flush_all", "url")\n'
)
MODULES = {module.name: module for module in api.built_in_modules()}
USER = 'task.run("user", image = "a:1", env = {"URL": url(s)})\n'


def nodes_of(workspace, text: str) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in workspace.topology(text)}


def test_a_postgres_server_is_an_ordinary_service(workspace):
    node = nodes_of(workspace, POSTGRES + 's = pg(port = 5433, resources = {"cpu": 1})')["postgres"]

    assert (node["kind"], node["image"], node["ports"]) == ("service", "postgres:16-alpine", [5433])
    assert node["env"] == {
        "POSTGRES_DB": "app",
        "POSTGRES_USER": "app",
        "POSTGRES_PASSWORD": "app",
        "PGPORT": "5433",
    }
    assert node["ready"]["command"][:5] == ["pg_isready", "-h", "127.0.0.1", "-p", "5433"]
    assert node["resources"]["cpu"] == 1


def test_what_a_suite_gives_wins_over_the_defaults(workspace):
    text = POSTGRES + 's = pg("db", ready = {"tcp": 5432}, env = {"LANG": "C", "POSTGRES_DB": "x"})'
    node = nodes_of(workspace, text)["db"]

    assert node["ready"]["tcp"] == 5432
    assert "command" not in node["ready"]
    assert node["env"]["LANG"] == "C"
    assert node["env"]["POSTGRES_USER"] == "app"


def test_helpers_wait_for_their_server_and_are_named_after_what_they_do(workspace):
    text = POSTGRES + (
        's = pg("db")\n'
        'a = query(s, "CREATE TABLE t (id int)")\n'
        'insert(s, "t", [{"id": 1}], after = a, retries = 2)\n'
        'select(s, "t", name = "look")\n'
    )
    nodes = nodes_of(workspace, text)

    assert list(nodes) == ["db", "db-query-create-table-t-id-int", "look", "db-insert-t"]
    inserted = nodes["db-insert-t"]
    assert inserted["after"] == ["db", "db-query-create-table-t-id-int"]
    assert (inserted["kind"], inserted["image"]) == ("task", "postgres:16-alpine")
    assert inserted["retries"] == 2
    assert inserted["env"]["PGHOST"] == "db"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (
            POSTGRES + 's = pg("db", user = "a@b", password = "p/w")\n',
            "postgresql://a%40b:p%2Fw@db:5432/app",
        ),
        (REDIS + 's = redis("cache")\n', "redis://cache:6379/0"),
        (REDIS + 's = redis("cache", password = "p:w")\n', "redis://:p%3Aw@cache:6379/0"),
    ],
)
def test_connection_strings(text, url, workspace):
    assert nodes_of(workspace, text + USER)["user"]["env"]["URL"] == url


@pytest.mark.parametrize("scope", ["@partita", "@acme"])
def test_a_module_is_found_by_its_name_whatever_the_scope(scope, workspace):
    assert nodes_of(workspace, f'load("{scope}/redis", "redis")\nredis()\n')


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ('s = pg()\ninsert(s, "t", [])', "fail_called", "rows must not be empty"),
        ('s = pg()\ninsert(s, "t", [{"a": 1}, {"b": 1}])', "fail_called", "the columns a"),
        ('s = task.run("x", image = "a:1")\nquery(s, "x")', "fail_called", "that pg(…) returned"),
        ('s = 1\nquery("db", "x")', "fail_called", "that pg(…) returned"),
        ('s = pg()\nquery(s, "x", imge = 1)', "unknown_keyword", 'unknown keyword "imge"'),
        ('s = pg()\nselect(s, "t", where = {"a-b": 1})', "invalid_value", "is not a column name"),
        ("s = pg()\nquery(s)", "eval_error", "sql"),
    ],
)
def test_an_error_in_a_helper_is_at_the_call_of_the_suite(text, code, says, workspace):
    error = workspace.error(POSTGRES + text)

    assert error["code"] == code, error
    assert says in error["message"]
    assert (error["file"], error["line"]) == ("suite.star", 3)


def test_a_name_that_a_module_does_not_have(workspace):
    error = workspace.error('load("@partita/postgres", "pgg")\npgg()\n')
    assert (error["code"], error["line"]) == ("symbol_not_found", 1)

    error = workspace.error('load("@partita/postgres", "_psql")\n')
    assert error["code"] in ("symbol_not_found", "eval_error")


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        ("postgres", "pg(port = 0)", "postgres.pg: port must be at least 1, not 0"),
        ("postgres", 'pg(env = ["A"])', "postgres.pg: env must be a dict, not list"),
        ("postgres", 'query(pg(), "")', "postgres.query: sql must not be empty"),
        ("postgres", 'select(pg(), "t", columns = "id")', "columns must be a list, not string"),
        ("postgres", 'select(pg(), "t", expect_rows = "1")', "expect_rows must be a whole number"),
        ("postgres", 'insert(pg(), "t", {"id": 1})', "rows must be a list, not dict"),
        ("postgres", 'insert(pg(), "t", [1])', "each of rows must be a dict, not int"),
        ("postgres", 'upsert(pg(), "t", [{"a": 1}], "b")', 'conflict names "b"'),
        ("postgres", 'delete(pg(), "t", 1)', "where must be a string or a dict, not int"),
        ("redis", 'set_key(redis(), "k", "v", ttl = "1")', "ttl must be a whole number"),
        ("redis", 'set_key(redis(), "k", None)', "value must be a string or a whole number"),
        ("redis", "set_keys(redis(), {})", "values must not be empty"),
        ("redis", "url(redis(), db = -1)", "db must be at least 0, not -1"),
        ("redis", 'wait_ready("redis")', "a node that redis(…) returned, not string"),
        ("kafka", 'create_topic(kafka(), "a b")', '"a b" is not the name of a topic'),
        ("kafka", 'create_topic(kafka(), "t", partitions = 0)', "partitions must be at least 1"),
        ("kafka", 'set_group_offset(kafka(), "g", "t", offset = "first")', "offset must be"),
        ("kafka", 'disconnect(kafka(), "")', "group must not be empty"),
        ("mongodb", 'mongodb(database = "a b")', '"a b" is not the name of a database'),
        ("mongodb", 'create_index(mongodb(), "c", ["a"])', "keys must be a dict, not list"),
        ("mongodb", 'create_collection(mongodb(), "a$b")', '"a$b" is not the name of a collection'),
        ("mongodb", 'insert_documents(mongodb(), "c", [])', "documents must not be empty"),
        ("playwright", 'browser_test("t", "s.js", "http://x", browsers = ["ie"])', '"ie"; known'),
        ("playwright", 'browser_test("t", "s.js", "x:80")', "base_url must start with http://"),
        ("playwright", 'browser_test("t", "no.js", "http://x")', "has no file tests/no.js"),
        ("playwright", 'browser_test("t", "s.js", "http://app:80/")', 'such as "app-server"'),
        ("playwright", 'a11y_audit("t", "s.js", "http://x", paths = ["a"])', '"a" is not a path'),
        (
            "playwright",
            'visual_diff("t", "s.js", "http://x", "b", threshold = 2)',
            "between 0 and 1",
        ),
    ],
)
def test_a_wrong_argument_is_named_at_the_call(module, text, says, workspace):
    names = [each.name for each in MODULES[module].functions]
    listed = ", ".join(f'"{name}"' for name in names)
    star = f'load("@partita/{module}", {listed})\n\n{text}\n'
    error = workspace.error({"suite.star": star, "tests/s.js": "// a spec"})

    assert says in error["message"], error
    assert error["code"] in ("fail_called", "file_not_found")
    assert (error["file"], error["line"]) == ("suite.star", 3)


def test_a_kafka_broker_and_its_tasks(workspace):
    """The words are those that Apache Kafka 3.9.0 took, by hand; no broker can be had here."""
    names = [each.name for each in MODULES["kafka"].functions]
    text = f"""load("@partita/kafka", {", ".join(f'"{name}"' for name in names)})
k = kafka("events", port = 9093)
create_topic(k, "orders", partitions = 3)
set_group_offset(k, "billing", "orders:1", offset = 7)
disconnect(k, "billing")
delete_topic(k, "orders", name = "gone")
task.run("user", image = "a:1", env = {{"KAFKA": bootstrap(k)}})
"""
    nodes = nodes_of(workspace, text)
    broker = nodes["events"]

    assert (broker["image"], broker["ports"]) == ("apache/kafka:3.9.0", [9093])
    assert broker["env"]["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://events:9093"
    assert "CONTROLLER://:9094" in broker["env"]["KAFKA_LISTENERS"]
    assert broker["ready"]["log"] == "Kafka Server started"
    assert nodes["user"]["env"]["KAFKA"] == "events:9093"
    at = ["--bootstrap-server", "events:9093"]
    bin_ = "/opt/kafka/bin"
    created = ["--topic", "orders", "--partitions", "3", "--replication-factor", "1"]
    assert nodes["events-create-topic-orders"]["command"] == [
        f"{bin_}/kafka-topics.sh", *at, "--create", "--if-not-exists", *created,
    ]  # fmt: skip
    moved = nodes["events-set-group-offset-billing"]
    assert moved["command"][3:] == [
        "--group", "billing", "--topic", "orders:1", "--reset-offsets",
        "--to-offset", "7", "--execute",
    ]  # fmt: skip
    assert moved["evaluation"]["failOnLogs"] == ["Error: "], "its exit code is 0 then"
    assert nodes["events-disconnect-billing"]["command"][3:] == ["--delete", "--group", "billing"]
    assert nodes["gone"]["command"][3:] == ["--delete", "--topic", "orders"]


def test_a_mongodb_server_and_its_tasks(workspace):
    names = [each.name for each in MODULES["mongodb"].functions]
    text = f"""load("@partita/mongodb", {", ".join(f'"{name}"' for name in names)})
m = mongodb(database = "shop")
create_collection(m, "it's")
create_index(m, "goods", {{"name": 1, "at": -1}}, unique = True)
dated = {{"name": "x\\"; db.dropDatabase(); \\"", "at": {{"$date": "2024-01-01T00:00:00Z"}}}}
insert_documents(m, "goods", [dated])
drop_collection(m, "goods")
run_script(m, "db.goods.countDocuments()", name = "script")
task.run("user", image = "a:1", env = {{"URL": url(m)}})
"""
    nodes = nodes_of(workspace, text)
    assert nodes["user"]["env"]["URL"] == "mongodb://mongodb:27017/shop"
    assert nodes["mongodb"]["ready"]["command"][0] == "mongosh"
    scripts = {
        name: node["command"][-1] for name, node in nodes.items() if name.startswith("mongodb-")
    }
    assert scripts["mongodb-create-collection-it-s"] == 'db.createCollection("it\'s")'
    assert scripts["mongodb-create-index-goods"] == (
        'db.getCollection("goods").createIndex({"name": 1, "at": -1}, {"unique": true})'
    )
    assert nodes["script"]["command"][:3] == ["mongosh", "--quiet", "mongodb://mongodb:27017/shop"]
    if node := shutil.which("node"):
        for script in (*scripts.values(), nodes["mongodb"]["ready"]["command"][-1]):
            checked = subprocess.run(
                [node, "--check", "-"], input=script, text=True, capture_output=True, check=False
            )
            assert checked.returncode == 0, (script, checked.stderr)


def test_a_browser_test_is_a_node_for_each_browser(workspace):
    text = """load("@partita/playwright", "browser_test", "visual_diff")
w = service.run("w", image = "a:1", ports = [80])
both = browser_test("pages", "s.js", "http://w", browsers = ["chromium", "webkit"], after = w,
                    exports = [{"path": "more.txt"}], env = {"A": "b"})
visual_diff("look", "tests/s.js", "http://w", "it's", image = "own:1", browsers = ["firefox"])
log.info("done", name = "done", after = both)
"""
    nodes = {
        node["id"]: node
        for node in workspace.topology({"suite.star": text, "tests/s.js": "// a spec"})
    }
    assert nodes["done"]["after"] == ["pages-chromium", "pages-webkit"]
    first = nodes["pages-chromium"]
    assert (first["kind"], first["after"]) == ("test", ["w"])
    assert first["env"] == {
        "BASE_URL": "http://w", "BROWSER": "chromium", "SPEC": "tests/s.js", "A": "b",
    }  # fmt: skip
    assert [each["format"] for each in first["artifactExports"]] == ["junit", "raw", "raw"]
    assert "'@playwright/test@1.49.0'" in "".join(first["commands"])
    look = nodes["look-firefox"]
    assert (look["image"], look["env"]["THRESHOLD"]) == ("own:1", "0.01")
    assert "export BASELINE_DIR=\"$PARTITA_WORKSPACE_DIR\"/'it'\\''s'" in look["commands"]
    assert "'@playwright/test'" in "".join(look["commands"])


def test_the_documentation_has_every_function():
    text = module_reference.DOCUMENT.read_text()
    assert module_reference.document(text) == text, "run python -m tests.support.module_reference"


def test_every_module_says_what_it_is():
    assert list(MODULES) == ["kafka", "mongodb", "playwright", "postgres", "redis"]
    for module in MODULES.values():
        assert module.title
        assert module.description.endswith(".")
        assert all(each.doc.split("\n")[0].endswith((".", ";")) for each in module.functions), (
            module
        )


def run(node: dict[str, Any], **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a task here, with its env and what differs from its container."""
    return subprocess.run(
        node["command"],
        env=os.environ | node["env"] | env,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.postgres
def test_the_tasks_of_postgres_do_what_they_say(workspace):
    facts = conninfo_to_dict(need("TEST_POSTGRES_DSN", "PostgreSQL"))
    table = f"public.t_{uuid.uuid4().hex[:8]}"
    text = (
        POSTGRES
        + f"""
s = pg()
connect(s, name = "connect")
query(s, "CREATE TABLE {table} (id int PRIMARY KEY, name text)", name = "create")
insert(s, "{table}", [{{"id": 1, "name": "O'Hara"}}, {{"id": 2, "name": None}}], name = "insert")
select(s, "{table}", expect_rows = 2, name = "two")
select(s, "{table}", columns = ["name"], where = {{"id": 1}}, expect_rows = 1, name = "one")
upsert(s, "{table}", [{{"id": 2, "name": "x"}}, {{"id": 3, "name": "y"}}], "id", name = "upsert")
select(s, "{table}", where = "name = 'x'", expect_rows = 1, name = "changed")
select(s, "{table}", expect_rows = 7, name = "wrong")
delete(s, "{table}", {{"id": [1, 2]}}, name = "delete")
select(s, "{table}", expect_rows = 1, name = "left")
query(s, "DROP TABLE {table}", name = "drop")
query(s, "SELECT nonsense", name = "nonsense")
"""
    )
    nodes = nodes_of(workspace, text)
    here = {
        "PGHOST": str(facts.get("host", "127.0.0.1")),
        "PGPORT": str(facts.get("port", 5432)),
        "PGUSER": str(facts.get("user", "")),
        "PGPASSWORD": str(facts.get("password", "")),
        "PGDATABASE": str(facts.get("dbname", "")),
    }
    steps = ["connect", "create", "insert", "two", "one", "upsert", "changed", "wrong", "delete"]
    done = {name: run(nodes[name], **here) for name in [*steps, "left", "drop", "nonsense"]}

    failed = {name for name, ended in done.items() if ended.returncode}
    assert failed == {"wrong", "nonsense"}, {name: ended.stderr for name, ended in done.items()}
    assert "expected 7 rows, found 3" in done["wrong"].stderr
    assert "O'Hara" in done["one"].stdout
    with psycopg.connect(need("TEST_POSTGRES_DSN", "PostgreSQL")) as connection:
        assert connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,)


@pytest.fixture
def redis_server(workspace, tmp_path) -> Iterator[tuple[int, dict[str, dict[str, Any]]]]:
    """A real server, started by the command of the node."""
    need("TEST_REDIS_ADDR", "Redis")
    port = free_port()
    text = (
        REDIS
        + f"""
s = redis(password = "only-here", port = {port})
wait_ready(s, name = "wait")
set_key(s, "a key", "it's", ttl = 600, name = "set")
set_keys(s, {{"b": 1, "c": 2}}, name = "many")
delete_key(s, "b", name = "delete")
flush_db(s, 3, name = "flush-db")
flush_all(s, name = "flush-all")
"""
    )
    nodes = nodes_of(workspace, text)
    server = subprocess.Popen(
        [*nodes["redis"]["command"], "--save", "", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 15
        ready = {"command": nodes["redis"]["ready"]["command"], "env": nodes["redis"]["env"]}
        while run(ready).returncode:
            assert time.monotonic() < until, "the probe of the service never passes"
            time.sleep(0.05)
        yield port, nodes
    finally:
        server.kill()
        server.wait()


@pytest.mark.redis
def test_the_tasks_of_redis_do_what_they_say(redis_server):
    _, nodes = redis_server

    def cli(*words: str) -> str:
        node = {**nodes["wait"], "command": [*local(nodes["wait"])["command"][:-1], *words]}
        return run(node).stdout.strip()

    def local(node: dict[str, Any]) -> dict[str, Any]:
        return {**node, "command": ["127.0.0.1" if x == "redis" else x for x in node["command"]]}

    for name in ("wait", "set", "many", "delete"):
        ended = run(local(nodes[name]))
        assert ended.returncode == 0, ended.stderr
    assert cli("GET", "a key") == "it's"
    assert 590 <= int(cli("TTL", "a key")) <= 600
    assert (cli("GET", "b"), cli("GET", "c")) == ("", "2")
    assert run(local(nodes["flush-db"])).returncode == 0
    assert cli("GET", "c") == "2", "another database was emptied"
    assert run(local(nodes["flush-all"])).returncode == 0
    assert cli("DBSIZE") == "0"
    wrong = {**local(nodes["set"]), "env": {"REDISCLI_AUTH": "wrong"}}
    assert run(wrong).returncode != 0
