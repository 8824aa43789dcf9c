"""Operations of the REST API: docs/tables/rest.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from drf_spectacular.generators import SchemaGenerator

from documentation.markdown import cell, code, table

METHODS: Final = ("get", "post", "put", "patch", "delete")
Row = tuple[str, str, str]


def page() -> str:
    by_tag: dict[str, list[Row]] = defaultdict(list)
    for tag, row in operations():
        by_tag[tag].append(row)
    chapters = "\n".join(
        f"## {tag}\n\n{table(('Method', 'Path', 'What it does'), rows)}"
        for tag, rows in by_tag.items()
    )
    return (
        "# Operations of the REST API\n\n"
        "Parameters, bodies and answers of each are in the OpenAPI 3.1 description of your installation, "
        "`/api/v1/schema`, and on its page `/api/v1/docs`. What holds for all of them is in "
        "[the reference](../reference/control-plane.md#1-wire-conventions); errors have "
        "[codes](problems.md).\n\n"
        f"{chapters}"
    )


def operations() -> Iterator[tuple[str, Row]]:
    """Yield (tag, (method, path, summary)) of each operation, in the order of the description."""
    document = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    order = [tag["name"] for tag in document.get("tags", [])]
    found = [
        (operation["tags"][0], (method.upper(), code(path), cell(operation["summary"])))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]
    rank = {tag: place for place, tag in enumerate(order)}
    yield from sorted(found, key=lambda each: rank.get(each[0], len(rank)))
