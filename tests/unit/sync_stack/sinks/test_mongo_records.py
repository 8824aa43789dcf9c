"""What documents hold, without a server."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.sink import Put, Sink, SinkError, TargetPlace
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.mongo.client import address
from sync_stack.sinks.mongo.sink import UNMARKED, admits, flat, native, record_of
from sync_stack.sinks.open_sinks import open_sink

PLACE = TargetPlace(rule="r", tenant="t", datasource="mongo", env="e", repo="o/r")


def sink(**options) -> Sink:
    made = MongoOptions(hosts=("h",), **options)
    return open_sink(Datasource(name="mongo", kind="mongo", options=made), secret)


def secret(reference: SecretRef) -> str:
    return reference.value


@pytest.mark.parametrize("text", ["1", "-7", "1.5", "true", "false", "0", "123456789012345"])
def test_what_keeps_its_spelling_becomes_native(text):
    assert not isinstance(native(text), str)
    assert flat({"k": native(text)}) == {"k": text}


@pytest.mark.parametrize(
    "text", ["1.10", "0123", "1e3", "no", "", "True", "12345678901234567890", "-0", "+1", ".5"]
)
def test_what_would_lose_its_spelling_stays_text(text):
    """Sync invariant 21."""
    assert native({"k": [text]}) == {"k": [text]}


def test_a_document_of_anybody_comes_to_the_canonical_form():
    document = {"_id": "x", "data": {"a": {"b": [1, None, True]}, "c.d": "v", "e": {}}}

    name, record = record_of(document)

    assert (name, record.mark, record.version) == ("x", None, UNMARKED)
    assert record.values == {"a.b.0": "1", "a.b.1": "", "a.b.2": "true", "c.d": "v"}


@pytest.mark.parametrize(
    ("rendered", "name"), [("", "configs"), ("a/b c.d$", "a_b_c_d_"), ("x" * 120, "x" * 120)]
)
def test_names_of_collections_are_made_safe(rendered, name):
    """Sync invariant 29."""
    place = TargetPlace(
        rule="r", tenant="t", datasource="m", env="e", repo="o/r", rendered=rendered
    )

    assert sink().destination(place).name == name


@pytest.mark.parametrize("rendered", ["system.users", "partita_tasks", "x" * 121, "a\r\nb"])
def test_reserved_collections_are_refused(rendered):
    """Sync invariant 29."""
    place = TargetPlace(
        rule="r", tenant="t", datasource="m", env="e", repo="o/r", rendered=rendered
    )

    with pytest.raises(SinkError) as refused:
        sink().destination(place)
    assert refused.value.code == "destination_invalid"


def test_a_key_that_begins_with_a_dollar_is_refused():
    """Sync invariant 29."""
    with pytest.raises(SinkError) as refused:
        sink().record(PLACE, sink().destination(PLACE), "$where", "f")
    assert refused.value.code == "key_invalid"


def test_a_whole_document_of_others_is_matched_only_when_it_was_read():
    """Sync invariant 23."""
    unread = admits(Put(record="x", values={"a": "1"}), 3, whole=True)
    read = admits(Put(record="x", values={"a": "1"}, version=UNMARKED), 3, whole=True)

    assert unread == {"_id": "x", "_partita.generation": {"$lte": 3}}
    assert "$or" in read


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("mongodb://user:pw@B:1,A/db?x=y", "a:27017,b:1"),
        ("mongodb+srv://u:p@Cluster.example/db", "srv:cluster.example"),
    ],
)
def test_the_address_holds_hosts_and_no_credentials(endpoint, expected):
    """Sync invariants 11 and 24."""
    assert address(MongoOptions(endpoint=endpoint)) == expected
