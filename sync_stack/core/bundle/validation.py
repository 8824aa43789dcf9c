"""Validation of a bundle: a tree becomes the Bundle, or everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from readers.diagnostics import Diagnostic
from readers.tree import Kind, Tree
from sync_stack.core.bundle.datasources import (
    UNSUPPORTED,
    Datasource,
    build_datasource,
    datasource_kinds,
    read_datasource,
)
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue, sort_diagnostics
from sync_stack.core.bundle.fields import (
    BundleEntries,
    ParsedFields,
    manager_of,
    read_entries,
    read_fields,
)
from sync_stack.core.bundle.model import TOP, Bundle, DisabledRule, SchemaRegistry
from sync_stack.core.bundle.platforms import PLATFORM, Platform, build_platform, platform_kinds
from sync_stack.core.bundle.rule_reader import RuleContext, read_rules
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secret_managers import SecretManager, read_manager

_REFERENCES: Final = {  # field -> kinds of datasources, and the old tag of global_tags
    "task_broker_datasource": (("redis",), "celery_broker"),
    "task_backend_datasource": (("redis", "mongo"), "celery_backend"),
    "watcher_state_datasource": (("redis", "mongo"), "watcher_state_redis"),
    "gateway_nonce_datasource": (("redis",), "gateway_nonce_redis"),
}


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
    """Read the top-level field `bundle` of a file; `strict` turns warnings into errors."""
    diagnostics = Diagnostics(file=file)
    located = LocatedValue(root, diagnostics).member("bundle")
    bundle = None
    if located is None:
        missing = LocatedValue(root, diagnostics, ("bundle",))
        missing.error("missing_field", "the file has no top-level field bundle")
    else:
        parsed = read_fields(TOP, located)
        if located.kind is Kind.MAP:
            bundle = _build(parsed, production=production, digest=digest)
    complaints = sort_diagnostics(diagnostics.complaints, strict=strict)
    failed = any(entry.severity == "error" for entry in complaints)
    return BundleReading(bundle=None if failed else bundle, complaints=complaints)


def _build(parsed: ParsedFields, *, production: bool, digest: str) -> Bundle | None:
    """Read the lists in the order in which they refer to one another."""
    managers: BundleEntries[SecretManager] = read_entries(
        "secret manager",
        parsed.get("secret_managers"),
        ("vault",),
        lambda _kind, name, member: read_manager(member, name),
    )
    platforms, org_names = _platforms(parsed.get("platforms"), managers, production=production)
    datasources = _datasources(parsed.get("datasources"), managers)
    context = RuleContext(
        platforms=platforms,
        datasources=datasources,
        managers=managers,
        org_names=org_names,
        production=production,
    )
    rules = read_rules(parsed.get("rules"), context)
    references = {name: _reference(name, parsed, datasources) for name in _REFERENCES}
    registry = _schema_registry(parsed.get("schema_registry"), platforms, managers)
    if not parsed.complete:
        return None
    if not parsed.get("max_webhook_body_bytes"):
        parsed.take("max_webhook_body_bytes")
    own_managers = [manager for entry in rules for manager in entry.managers]
    bundle: Bundle = parsed.build(
        platforms=tuple(platforms.built.values()),
        datasources=tuple(datasources.built.values()),
        rules=tuple(entry.rule for entry in rules if isinstance(entry.rule, Rule)),
        disabled_rules=tuple(e.rule for e in rules if isinstance(e.rule, DisabledRule)),
        secret_managers=(*managers.built.values(), *own_managers),
        schema_registry=registry,
        digest=digest,
        **references,
    )
    return bundle


def _platforms(
    located: LocatedValue | None, managers: BundleEntries[SecretManager], *, production: bool
) -> tuple[BundleEntries[Platform], dict[str, str]]:
    """Return the platforms, and their org_name by name."""
    org_names: dict[str, str] = {}

    def build(kind: str, name: str, member: LocatedValue) -> Platform | None:
        parsed = read_fields(PLATFORM, member)
        org_names[name] = parsed.get("org_name", "")
        manager = manager_of(parsed, managers)
        return build_platform(kind, name, parsed, manager=manager, production=production)

    return read_entries("platform", located, tuple(platform_kinds), build), org_names


def _datasources(
    located: LocatedValue | None, managers: BundleEntries[SecretManager]
) -> BundleEntries[Datasource]:
    def build(kind: str, name: str, member: LocatedValue) -> Datasource | None:
        parsed = read_datasource(kind, member)
        return build_datasource(kind, name, parsed, manager_of(parsed, managers))

    return read_entries("datasource", located, tuple(datasource_kinds), build, UNSUPPORTED)


def _reference(name: str, parsed: ParsedFields, datasources: BundleEntries[Datasource]) -> str:
    """Return the datasource of a field; a tag in global_tags stands in when it is absent."""
    kinds, tag = _REFERENCES[name]
    located, written = parsed.at(name), parsed.has(name)
    if not written:
        if tag not in parsed.get("global_tags", {}):
            return ""
        located = parsed.at("global_tags").at(tag)
        message = f'"{tag}" in global_tags is now called {name}'
        located.warn("deprecated_name", message)
    if located.kind is not Kind.STRING:
        return ""
    datasource = datasources.resolve(located, quiet=not written)
    if datasource and datasources.kinds[datasource] not in kinds:
        message = f'"{datasource}" is not a {" or ".join(kinds)} datasource'
        located.error("wrong_kind", message)
    return datasource


def _schema_registry(
    parsed: ParsedFields | None,
    platforms: BundleEntries[Platform],
    managers: BundleEntries[SecretManager],
) -> SchemaRegistry | None:
    if parsed is None:
        return None
    platform = platforms.resolve(parsed.at("platform"))
    manager = manager_of(parsed, managers)
    registry: SchemaRegistry = parsed.build(platform=platform, secret_manager=manager)
    return registry
