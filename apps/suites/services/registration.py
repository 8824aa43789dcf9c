"""Suites registered from text (reference: control-plane 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml
from django.db import IntegrityError

from apps.accounts.api import Forbidden, Principal, Role
from apps.operations.api import raise_generation
from apps.streams.api import unit_of_work
from apps.suites import conf
from apps.suites.domain.definition import DefinitionDocument, Suite, suite_of
from apps.suites.domain.package import (
    REGISTERED,
    TOPOLOGY_FILE,
    Origin,
    Package,
    broken_files_rule,
)
from apps.suites.domain.suite_users import suite_users
from apps.suites.evaluation.library import library
from apps.suites.models import RegisteredSuite
from apps.suites.selectors import PackageInvalid, SuiteNotFound, TopologyInvalid
from apps.suites.sources.registered import TOPIC
from kernel import clock
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError
from kernel.ids import is_identifier
from readers.archive import pack

METADATA_FILES: Final = ("metadata.yaml", "metadata.yml")


class SuiteExists(PlatformError):
    code = "suite_exists"


class SuiteInUse(PlatformError):
    code = "execution_active"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteText:
    """A suite as text; `files` are further files by their path."""

    suite_id: str
    suite_star: str
    title: str = ""
    description: str = ""
    owner: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def register_suite(principal: Principal, text: SuiteText) -> DefinitionDocument:
    """Store a suite and return its Definition; every process lists it from then on.

    Raise NotFound or Forbidden (see SUITE_REGISTRATION), InvalidInput, PackageInvalid,
    TopologyInvalid, SuiteExists.
    """
    require_registration(principal)
    files = _files_of(text)
    if any(suite.suite_id == text.suite_id for suite in library.suites()):
        raise _exists(text.suite_id)
    suite = _check(text.suite_id, files)
    try:
        _store(principal, suite)
    except IntegrityError:
        raise _exists(text.suite_id) from None
    return library.evaluate(_find_listed(text.suite_id)).definition


def remove_suite(principal: Principal, suite_id: str) -> None:
    """Remove a registered suite; no process lists it from then on.

    Runs that are over keep their snapshots. Raise NotFound, Forbidden, SuiteNotFound, SuiteInUse.
    """
    require_registration(principal)
    suite = next((each for each in library.suites() if each.suite_id == suite_id), None)
    if suite is None or suite.source != REGISTERED:
        raise SuiteNotFound(f"there is no registered suite {suite_id[:200]!r}")
    if not _remove(suite_id, library.index.key_of(suite_id)):
        raise SuiteNotFound(f"there is no registered suite {suite_id[:200]!r}")


def require_registration(principal: Principal) -> None:
    """Raise NotFound or Forbidden for who may not register suites (SUITE_REGISTRATION)."""
    allowed = conf.suite_registration()
    if allowed == "off":
        raise NotFound("suites cannot be registered in this installation (SUITE_REGISTRATION)")
    if allowed == "admin" and not principal.is_admin:
        raise Forbidden("Only an administrator may register and remove suites")
    principal.require(Role.RUNNER)


def _files_of(text: SuiteText) -> dict[str, bytes]:
    errors: list[FieldError] = []
    if not is_identifier(text.suite_id):
        errors.append(_error("/id", "must be an id: letters, digits, '.', '_' and '-'"))
    if TOPOLOGY_FILE in text.files:
        errors.append(_error("/files/suite.star", "belongs in suiteStar"))
    stated = {
        name: value
        for name, value in (
            ("title", text.title),
            ("description", text.description),
            ("owner", text.owner),
        )
        if value
    }
    present = next((path for path in METADATA_FILES if path in text.files), "")
    if stated and present:
        name = next(iter(stated))
        errors.append(_error(f"/{name}", f"belongs in the file {present} of this body"))
    if errors:
        raise InvalidInput(f"{errors[0].pointer[1:]} {errors[0].detail}", errors=errors)
    files = {path: content.encode() for path, content in text.files.items()}
    files[TOPOLOGY_FILE] = text.suite_star.encode()
    if stated:
        made = yaml.safe_dump(stated, sort_keys=False, allow_unicode=True)
        files[METADATA_FILES[0]] = made.encode()
    return files


def _error(pointer: str, detail: str) -> FieldError:
    return FieldError(pointer=pointer, code="invalid_value", detail=detail)


def _check(suite_id: str, files: Mapping[str, bytes]) -> Suite:
    """Return the suite if it resolves under its default profile; wait for its evaluation."""
    path, reason = broken_files_rule(files)
    package = Package(
        suite_id=suite_id,
        files=files,
        problem=f"{path} {reason}" if reason else "",
        problem_file=path,
        origin=Origin(source=REGISTERED),
    )
    suite = suite_of(package)
    if problem := suite.package_problem:
        raise PackageInvalid(problem)
    evaluation = library.trial(suite)
    if evaluation.problem:
        raise TopologyInvalid(evaluation.problem)
    return suite


@unit_of_work
def _store(principal: Principal, suite: Suite) -> None:
    RegisteredSuite.objects.create(
        suite_id=suite.suite_id,
        digest=suite.digest,
        files=pack(suite.package.files),
        registered_by=principal.user_id,
        registered_at=clock.now(),
    )
    raise_generation(TOPIC)


@unit_of_work
def _remove(suite_id: str, registered_as: str) -> bool:
    """Remove the suite; its id is another than at its registration if a folder took that one."""
    ids = {suite_id, registered_as}  # runs may have begun under either
    if any(suite_users[name](each) for name in suite_users for each in ids):
        raise SuiteInUse(f"an active run uses {suite_id}; cancel it or wait for its end")
    removed, _ = RegisteredSuite.objects.filter(suite_id=registered_as).delete()
    raise_generation(TOPIC)
    return bool(removed)


def _find_listed(suite_id: str) -> Suite:
    found = next((each for each in library.suites() if each.suite_id == suite_id), None)
    if found is None:
        raise SuiteNotFound(f"{suite_id} was removed meanwhile")
    return found


def _exists(suite_id: str) -> SuiteExists:
    return SuiteExists(f"there is a suite {suite_id} already; choose another id")
