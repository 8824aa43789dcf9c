"""What MongoDB would be asked: queries of the ORM as its backend compiles them, and the indexes.

Needs no server: nothing is sent. Whether an index serves a filter follows MongoDB's rules: its
first field must be bounded by equality, `$in`, a range or a beginning; a partial index serves no
filter that does not repeat its own; `$expr`, `$nor` and `$exists` bound nothing. Filters on fields
of the collection itself are moved before a `$lookup` by the server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

from django.apps import apps
from django.core.exceptions import EmptyResultSet
from django.db.models.sql import compiler as sql
from django.db.models.sql.query import Query
from pymongo import IndexModel

from platform_site.mongodb.base import DatabaseWrapper, SchemaEditor

ROOT: Final = Path(__file__).resolve().parents[2]
_OURS: Final = tuple(f"{ROOT / name}/" for name in ("apps", "sync_stack", "platform_site"))
_TESTS: Final = f"{ROOT / 'tests'}/"
_BOUNDS: Final = frozenset({"$eq", "$in", "$gt", "$gte", "$lt", "$lte"})
_COMPILERS: Final = (sql.SQLCompiler, sql.SQLUpdateCompiler, sql.SQLDeleteCompiler)


READS_EVERYTHING: Final = "apps/operations/services/store_"  # a backup and a restore
READ_WHOLE: Final = {  # filters that no index serves, and why that is as it should be
    "accounts_secondfactor {}": "`manage.py keys`: every encrypted secret, in pages by key",
    "accounts_user {'$and': [{'is_active': '='}, {'is_admin': '='}]}":
        "the first administrator, as whom a command acts; once a command",
    "accounts_user {'is_admin': '='}":
        "whether an administrator exists, for the pages of sign-in; once there is one, remembered",
    "accounts_user {}": "a migration, once",
    "accounts_workspace {}": "whether there are two: no more rows are read",
    "accounts_deviceauthorization {}": "all are deleted once after a restore",
    "accounts_exchangecode {}": "likewise",
    "accounts_passwordreset {}": "likewise",
    "accounts_streamticket {}": "likewise",
    "accounts_uisession {}": "likewise",
    "agents_agent {'$or': [{'removed_at': ['$exists']}, {'removed_at': '='}]}":
        "the page of all workers; there are as many rows as there ever were workers",
    "suites_registeredsuite {}": "the list of suites; once for each change of a registered one",
    "profiles_profilesfilecontent {}": "an import of the file, once a change of it by hand",
    "profiles_suiteprofiles {}": "a row per suite with stored profiles; once a change of any",
    "sync_counter {}": "the metrics of all; a few hundred rows",
    "sync_drift {}": "a list's first page, by key",
    "sync_journalchunk {}": "the sweep: chunks that no ledger names; none as a rule",
    "sync_ledgerunit {'$and': [{'kind': '='}, {'$nor': [{'separator': '='}]}]}":
        "a new unit is compared with the destinations of all",
    "sync_ledgerunit {'$nor': [{'journal': '='}]}": "the sweep, as above",
    "sync_ledgerunit {'$nor': [{'stale_since': '='}]}": "a gauge of the metrics",
    "sync_ledgerunit {}": "the sweep: refs and tasks that a ledger names",
    "sync_refrecord {}": "the sweep, and the page of all refs",
    "sync_task {'facets': ['$options', '$regex']}": "a page of those that have the text, by key",
    "sync_task {}": "a list's first page, by key",
    "system_readinessmark": "one row, for a moment; more of them in the tests of paging",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A filter on a collection."""

    collection: str
    match: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.collection} {shape(self.match)}"


def connection() -> DatabaseWrapper:
    """A connection that compiles and is never opened."""
    from django.db import connections

    known = {**connections["default"].settings_dict, "OPTIONS": {}, "NAME": "tests"}
    return DatabaseWrapper(known | {"HOST": "mongodb://localhost", "PORT": ""}, alias="mongo")


def compiled(query: Query, on: DatabaseWrapper) -> Asked | None:
    """None where the filter can match nothing: the backend then asks nobody."""
    query = getattr(query, "inner_query", query).clone()
    compiler = query.get_compiler(connection=on)
    try:
        compiler.pre_sql_setup()
        built = compiler.build_query()
    except EmptyResultSet:
        return None
    return Asked(compiler.collection_name, built.match_mql)


@dataclass
class Watch:
    """Queries of our code, one of each text, with the line that asks; not those of the tests."""

    found: list[tuple[str, Query]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def take(self, text: str, query: Query) -> None:
        if text not in self._seen and (line := _asking_line()):
            self._seen.add(text)
            if line.startswith(READS_EVERYTHING):
                return
            self.found.append((line, query.clone()))

    def unserved(self) -> list[str]:
        """What no index serves, of those that came since the last call."""
        found, self.found = self.found, []
        return [f"{line}: {asked}" for line, query in found for asked in _unserved(query)]


def _asking_line() -> str:
    """The innermost line of ours, below Django; empty when a test asks."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_OURS):
            return f"{Path(path).relative_to(ROOT)}:{frame.f_lineno}"
        if path.startswith(_TESTS) and path != __file__:
            return ""
        frame = frame.f_back
    return ""


@contextmanager
def watched() -> Iterator[Watch]:
    """Take down what the ORM compiles, on whatever store the tests have."""
    watch = Watch()
    originals = {each: each.as_sql for each in _COMPILERS}

    def watching(original: Any) -> Any:
        def as_sql(self: Any, *args: Any, **options: Any) -> Any:
            text, parameters = original(self, *args, **options)
            watch.take(text, self.query)
            return text, parameters

        return as_sql

    for each, original in originals.items():
        each.as_sql = watching(original)  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        for each, original in originals.items():
            each.as_sql = original  # type: ignore[method-assign]


class _Collections(SchemaEditor):
    """Takes down the indexes instead of making them."""

    def __init__(self, on: DatabaseWrapper) -> None:
        super().__init__(on)
        self.made: dict[str, list[dict[str, Any]]] = {}

    def get_collection(self, name: str) -> Any:
        return _Collection(self.made.setdefault(name, []))


@dataclass
class _Collection:
    made: list[dict[str, Any]]

    def create_indexes(self, models: list[IndexModel]) -> None:
        self.made += [model.document for model in models]


def _unserved(query: Query) -> Iterator[Asked]:
    on = _compiling()
    asked = compiled(query, on)
    if asked is None or asked.collection not in indexes():  # Django's own record of migrations
        return
    first = first_fields(asked.collection)
    excused = {asked.collection, str(asked)} & READ_WHOLE.keys()
    if not excused and not is_served(asked.match, first):
        yield asked


@cache
def _compiling() -> DatabaseWrapper:
    return connection()


@cache
def first_fields(collection: str) -> frozenset[str]:
    """Of the indexes that serve any query; the key is called as the store of the tests calls it."""
    whole = [each for each in indexes()[collection] if "partialFilterExpression" not in each]
    return frozenset({_keys()[collection], *(next(iter(each["key"])) for each in whole)})


@cache
def indexes() -> dict[str, list[dict[str, Any]]]:
    """Collection → its index definitions, as `createIndexes` takes them, without `_id`."""
    editor = _Collections(_compiling())
    for model in apps.get_models(include_auto_created=True):
        editor.get_collection(model._meta.db_table)
        editor._create_model_indexes(model)
    return editor.made


@cache
def _keys() -> dict[str, str]:
    models = apps.get_models(include_auto_created=True)
    return {model._meta.db_table: str(model._meta.pk.column) for model in models}


def is_served(match: Mapping[str, Any], first: Set[str]) -> bool:
    """Whether an index that begins with one of these fields finds what `match` admits."""
    return any(_serves(name, wanted, first) for name, wanted in match.items())


def _serves(name: str, wanted: Any, first: Set[str]) -> bool:
    if name == "$and":
        return any(is_served(each, first) for each in wanted)
    if name == "$or":
        return all(is_served(each, first) or _is_absent(each, first) for each in wanted)
    if name.startswith("$"):
        return False
    return name in first and _is_bound(wanted)


def _is_bound(wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return True
    beginning = str(wanted.get("$regex", "")).startswith("^")
    return bool(_BOUNDS & wanted.keys()) or beginning or wanted == {"$ne": None}


def _is_absent(match: Mapping[str, Any], first: Set[str]) -> bool:
    """The half of `field is null` that an index finds as null, too."""
    return all(name in first and wanted == {"$exists": False} for name, wanted in match.items())


def shape(match: Any) -> Any:
    """The filter without its values."""
    if isinstance(match, Mapping):
        return {
            name: [shape(each) for each in wanted]
            if name in {"$and", "$or", "$nor"}
            else (sorted(wanted) if isinstance(wanted, Mapping) else "=")
            for name, wanted in match.items()
        }
    return "="
