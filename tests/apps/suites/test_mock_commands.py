"""`mock import` and `mock lint` on suites of a workspace."""

from __future__ import annotations

import json
import socket

import pytest
from django.core.management import call_command

CONTRACT = """openapi: 3.0.3
info: {title: Shop}
paths:
  /orders/{id}:
    get:
      operationId: getOrder
      responses: {'200': {content: {application/json: {schema: {type: object, required: [id]}}}}}
"""
HAR = json.dumps(
    {"log": {"entries": [{
        "request": {"method": "GET", "url": "https://shop.test/orders/42", "headers": []},
        "response": {"status": 200, "headers": [],
                     "content": {"mimeType": "application/json", "text": '{"id": 42}'}},
    }]}}
)  # fmt: skip


def typed(*words: str) -> int:
    """The exit code of a `manage.py mock …`."""
    try:
        call_command("mock", *words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.fixture
def contract(tmp_path):
    place = tmp_path / "orders.openapi.yaml"
    place.write_text(CONTRACT)
    return place


def test_a_contract_is_imported_into_a_suite(workspace, contract, capsys):
    folder = workspace.add("shop", 'log.info(message = "x")')

    assert typed("import", str(contract), "--suite", "shop", "-o", "json") == 0

    found = json.loads(capsys.readouterr().out)
    assert found["files"] == {"new": ["api/orders.openapi.yaml"], "changed": [], "unchanged": []}
    assert found["surfaces"] == [{"id": "orders", "operations": 1}]
    assert (folder / "api/orders.openapi.yaml").read_text() == CONTRACT
    assert typed("lint", "shop", "--strict") == 0


def test_nothing_is_replaced_without_force(contract, tmp_path, capsys):
    out = tmp_path / "out"
    target = out / "api/orders.openapi.yaml"
    assert typed("import", str(contract), "--out", str(out), "--dry-run") == 0
    assert "would write" in capsys.readouterr().out
    assert not out.exists()

    assert typed("import", str(contract), "--out", str(out)) == 0
    target.write_text("mine")
    assert typed("import", str(contract), "--out", str(out)) == 5
    assert target.read_text() == "mine"
    assert "nothing was written" in capsys.readouterr().err
    assert typed("import", str(contract), "--out", str(out), "--force") == 0
    assert target.read_text() == CONTRACT
    assert typed("import", str(contract), "--out", str(out)) == 0  # the same again


def test_recorded_calls_become_mocks_that_lint_accepts(tmp_path, capsys):
    har = tmp_path / "calls.har"
    har.write_text(HAR)
    out = tmp_path / "out"
    assert typed("import", str(har), "--out", str(out), "--surface", "shop") == 0
    assert "1 example" in capsys.readouterr().out
    assert sorted(path.name for path in (out / "mock/shop").iterdir()) == [
        "get-orders-orderid.metadata.yaml", "get-orders-orderid.yaml",
    ]  # fmt: skip
    assert typed("lint", str(out), "--strict") == 0


def test_a_recording_without_a_call_ends_with_an_error(tmp_path, capsys):
    har = tmp_path / "empty.har"
    har.write_text('{"log": {"entries": []}}')
    assert typed("import", str(har), "--out", str(tmp_path / "out")) == 1
    assert f"{har}: nothing was found in it that can be a mock" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_link_leads_nowhere_else(contract, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/api").symlink_to(tmp_path / "elsewhere")
    assert typed("import", str(contract), "--out", str(tmp_path / "out")) == 1
    assert "leads out of" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["missing.yaml", "text.json"])
def test_a_file_that_is_none_of_them_is_refused(tmp_path, name, capsys):
    (tmp_path / "text.json").write_text('{"a": 1}')
    assert typed("import", str(tmp_path / name), "--out", str(tmp_path / "out")) == 1
    assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_suite_is_not_found(workspace, contract):
    assert typed("import", str(contract), "--suite", "gone") == 3


def test_lint_fails_for_what_breaks_a_contract_and_so_does_suite_lint(workspace, capsys):
    workspace.add(
        "shop",
        {
            "suite.star": 'log.info(message = "x")',
            "api/shop.yaml": CONTRACT,
            "mock/shop/getOrder.yaml": "examples:\n  a: {response: {body: {no: 1}}}\n",
        },
    )
    assert typed("lint", "shop") == 1
    assert "mock/shop/getOrder.yaml:2" in (said := capsys.readouterr().out)
    assert "[mock_breaks_contract]" in said

    assert typed("lint", "-o", "json") == 1
    (suite,) = json.loads(capsys.readouterr().out)["suites"]
    assert [each["code"] for each in suite["diagnostics"]] == ["mock_breaks_contract"]

    with pytest.raises(SystemExit) as ended:
        call_command("suite", "lint", "shop")
    assert ended.value.code == 1
    assert "mock_breaks_contract" in capsys.readouterr().out


def test_record_refuses_what_it_cannot_do(tmp_path, capsys):
    out = tmp_path / "out"
    for target in ("ftp://x", "shop.test", "http://user:pw@shop.test"):
        assert typed("record", "--to", target, "--out", str(out)) == 1
    (out / "mock/shop").mkdir(parents=True)
    (out / "mock/shop/a.yaml").write_text("")
    words = ("record", "--to", "http://x.test", "--out", str(out), "--surface", "shop")
    assert typed(*words) == 5
    assert "--force" in capsys.readouterr().err


def test_record_says_that_a_port_is_taken(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("record", "--to", "http://x.test", "--out", str(tmp_path), "--port", port)
        assert typed(*words) == 1
    assert f"cannot listen on --port {port}: Address already in use" in capsys.readouterr().err


def test_import_says_where_a_contract_cannot_be_read(tmp_path, capsys):
    (tmp_path / "x.yaml").write_text("openapi: 3.0.3\ninfo: {title: X\npaths:\n")
    assert typed("import", str(tmp_path / "x.yaml"), "--out", str(tmp_path / "out")) == 1
    assert "x.yaml:3:6: did not find expected" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "key"), [("metadata", "fallback"), ("examples", "callbacks")])
def test_the_schema_of_a_mock_file_is_printed(kind, key, capsys):
    assert typed("schema", kind) == 0
    schema = json.loads(capsys.readouterr().out)
    assert any(key in each["properties"] for each in schema["$defs"].values())


def test_lint_takes_the_name_of_a_folder(workspace, tmp_path, monkeypatch, capsys):
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic/orders.yaml").write_text(CONTRACT)
    monkeypatch.chdir(tmp_path)
    assert typed("lint", "clinic") == 0
    assert "clinic: nothing to report" in capsys.readouterr().out


def test_a_folder_of_wiremock_is_imported_and_what_it_loses_is_said(workspace, tmp_path, capsys):
    folder = workspace.add("shop", 'log.info(message = "x")')
    stubs = tmp_path / "stubs"
    (stubs / "mappings").mkdir(parents=True)
    (stubs / "__files").mkdir()
    (stubs / "__files/order.json").write_text('{"id": 7}')
    (stubs / "__files/out").symlink_to("/etc/hostname")
    for name, response in (
        ("order", {"bodyFileName": "order.json"}),
        ("out", {"bodyFileName": "out", "fault": "SMOKE"}),
    ):
        mapping = {"request": {"method": "GET", "urlPath": f"/{name}"}, "response": response}
        (stubs / f"mappings/{name}.json").write_text(json.dumps(mapping))

    assert typed("import", str(stubs), "--suite", "shop", "--surface", "orders") == 0

    said = capsys.readouterr().out
    assert "API surface orders: 2 operations" in said
    assert "left out, 1 times: mappings/out.json: the fault of the response is left out: " in said
    assert "left out, 1 times: mappings/out.json: the file __files/out is not there" in said
    assert "id: 7" in (folder / "mock/orders/get-order.yaml").read_text()
    assert typed("lint", "shop", "--strict") == 0
    assert typed("import", str(tmp_path / "none"), "--suite", "shop") == 1
