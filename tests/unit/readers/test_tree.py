from __future__ import annotations

from readers.tree import Kind, Tree

PORT = Tree(kind=Kind.NUMBER, text="8080", line=2, column=9)
SERVER = Tree(
    kind=Kind.MAP,
    pairs={
        "port": PORT,
        "tags": Tree(kind=Kind.LIST, items=(Tree(kind=Kind.STRING, text="a"),)),
        "open": Tree(kind=Kind.BOOL, text="true"),
        "none": Tree(kind=Kind.NULL),
        "rate": Tree(kind=Kind.NUMBER, text="1e3"),
    },
)


def test_a_tree_is_what_python_has_for_it():
    assert SERVER.plain() == {
        "port": 8080,
        "tags": ["a"],
        "open": True,
        "none": None,
        "rate": 1000.0,
    }


def test_a_walk_names_every_value_parents_first():
    assert [path for path, _ in SERVER.walk()] == [
        (),
        ("port",),
        ("tags",),
        ("tags", "0"),
        ("open",),
        ("none",),
        ("rate",),
    ]


def test_a_member_of_what_is_no_map_is_absent():
    assert SERVER.get("port") is PORT
    assert PORT.get("port") is None
