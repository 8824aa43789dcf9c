"""A bundle from a tree: everything that is wrong with it, or the Bundle."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from readers.diagnostics import Diagnostic
from readers.tree import Kind, Tree
from sync_stack.core.bundle import platforms as platform_part
from sync_stack.core.bundle.datasource_checks import build_datasource, read_datasource
from sync_stack.core.bundle.datasource_fields import TABLES, UNSUPPORTED
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.entries import Entry, Names, entries_of, manager_of, names_of
from sync_stack.core.bundle.fields import ParsedFields, read_table
from sync_stack.core.bundle.managers import read_manager
from sync_stack.core.bundle.model import (
    Bundle,
    Datasource,
    Platform,
    SchemaRegistry,
    SecretManager,
)
from sync_stack.core.bundle.rules import (
    ReadRule,
    Surroundings,
    complain_of_duplicates,
    read_rule,
)
from sync_stack.core.bundle.top_fields import (
    DEFAULT_BODY_BYTES,
    REFERENCES,
    TOP,
    Reference,
    build_limits,
)

_MANAGER_KINDS: Final = ("vault",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReading:
    """`bundle` is None exactly when `complaints` holds an error."""

    bundle: Bundle | None
    complaints: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(entry for entry in self.complaints if entry.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(entry for entry in self.complaints if entry.severity == "warning")


def read_bundle(
    root: Tree, *, file: str, production: bool = False, strict: bool = False, digest: str = ""
) -> BundleReading:
    """The bundle of a file's top-level field `bundle`; `strict` turns warnings into errors."""
    findings = Diagnostics(file)
    bundle = _read(LocatedValue(root), findings, production=production, digest=digest)
    complaints = findings.all(strict=strict)
    failed = any(entry.severity == "error" for entry in complaints)
    return BundleReading(bundle=None if failed else bundle, complaints=complaints)


def _read(
    root: LocatedValue, findings: Diagnostics, *, production: bool, digest: str
) -> Bundle | None:
    spot = root.member("bundle")
    if spot is None:
        message = "the file has no top-level field bundle"
        findings.error(LocatedValue(root.tree, ("bundle",)), "missing_field", message)
        return None
    given = read_table(TOP, spot, findings)
    if spot.kind is not Kind.MAP:
        return None
    return _Lists(given, findings, production=production).bundle(digest)


class _Lists:
    """The lists of a bundle, read in the order in which they refer to one another."""

    def __init__(self, given: ParsedFields, findings: Diagnostics, *, production: bool) -> None:
        self.given = given
        self.findings = findings
        self.production = production
        self.managers: list[SecretManager] = []
        self.platforms: dict[str, Platform] = {}
        self.datasources: dict[str, Datasource] = {}
        self.org_names: dict[str, str] = {}
        self.manager_names = self._read_managers()
        self.platform_names = self._read_platforms()
        self.datasource_names = self._read_datasources()
        self.rules = self._read_rules()

    def bundle(self, digest: str) -> Bundle | None:
        """None when one of its required lists is missing."""
        named = {reference.name: self._reference(reference) for reference in REFERENCES}
        registry = self._schema_registry()
        if not self.given.complete:
            return None
        return Bundle(
            platforms=tuple(self.platforms.values()),
            datasources=tuple(self.datasources.values()),
            rules=tuple(entry.rule for entry in self.rules if entry.rule),
            disabled_rules=tuple(entry.disabled for entry in self.rules if entry.disabled),
            max_webhook_body_bytes=self.given.get("max_webhook_body_bytes") or DEFAULT_BODY_BYTES,
            gateway=build_limits(self.given.get("gateway")),
            secret_managers=tuple(self.managers),
            schema_registry=registry,
            global_tags=self.given.get("global_tags", {}),
            digest=digest,
            **named,
        )

    def _entries(self, name: str, known: Collection[str]) -> list[Entry]:
        unsupported = UNSUPPORTED if name == "datasources" else ()
        return entries_of(self.given.get(name), known, unsupported, self.findings)

    def _read_managers(self) -> Names:
        entries = self._entries("secret_managers", _MANAGER_KINDS)
        for entry in entries:
            if manager := read_manager(entry.spot, entry.name, self.findings):
                self.managers.append(manager)
        return names_of("secret manager", entries, self.findings)

    def _read_platforms(self) -> Names:
        entries = self._entries("platforms", platform_part.KINDS)
        for entry in entries:
            self._read_platform(entry)
        return names_of("platform", entries, self.findings)

    def _read_platform(self, entry: Entry) -> None:
        given = read_table(platform_part.PLATFORM, entry.spot, self.findings)
        made = platform_part.build_platform(
            entry.kind,
            entry.name,
            given,
            self.findings,
            manager=manager_of(given, self.manager_names, self.findings),
            production=self.production,
        )
        self.org_names[entry.name] = given.get("org_name", "")
        if made:
            self.platforms[entry.name] = made

    def _read_datasources(self) -> Names:
        entries = self._entries("datasources", TABLES)
        for entry in entries:
            if entry.kind not in UNSUPPORTED:
                self._read_datasource(entry)
        return names_of("datasource", entries, self.findings)

    def _read_datasource(self, entry: Entry) -> None:
        given = read_datasource(entry.kind, entry.spot, self.findings)
        manager = manager_of(given, self.manager_names, self.findings)
        if made := build_datasource(entry.kind, entry.name, given, manager):
            self.datasources[entry.name] = made

    def _read_rules(self) -> list[ReadRule]:
        around = Surroundings(
            platform_names=self.platform_names,
            datasource_names=self.datasource_names,
            manager_names=self.manager_names,
            platforms=self.platforms,
            datasources=self.datasources,
            org_names=self.org_names,
            production=self.production,
        )
        spot = self.given.get("rules")
        read = [read_rule(item, around, self.findings) for item in spot.items()] if spot else []
        rules = [rule for rule in read if rule]
        complain_of_duplicates(rules, self.findings)
        self.managers += [manager for rule in rules for manager in rule.managers]
        return rules

    def _reference(self, reference: Reference) -> str:
        """The datasource of a field; a tag in global_tags stands in when it is absent."""
        spot, quiet = self.given.at(reference.name), False
        if not self.given.has(reference.name):
            if reference.tag_name not in self.given.get("global_tags", {}):
                return ""
            spot, quiet = self.given.at("global_tags").at(reference.tag_name), True
            message = f'"{reference.tag_name}" in global_tags is now called {reference.name}'
            self.findings.warn(spot, "deprecated_name", message)
        if spot.kind is not Kind.STRING:
            return ""
        name = self.datasource_names.resolve(spot, self.findings, quiet=quiet)
        if name and self.datasource_names.kinds[name] not in reference.kinds:
            kinds = " or ".join(reference.kinds)
            message = f'"{name}" is not a {kinds} datasource'
            self.findings.error(spot, "wrong_kind", message)
        return name

    def _schema_registry(self) -> SchemaRegistry | None:
        given: ParsedFields | None = self.given.get("schema_registry")
        if given is None:
            return None
        values: dict[str, Any] = dict(given.values)
        values["platform"] = self.platform_names.resolve(given.at("platform"), self.findings)
        values["secret_manager"] = manager_of(given, self.manager_names, self.findings)
        return SchemaRegistry(**values)
