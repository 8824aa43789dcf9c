"""The schema hook of an attempt: what the bundle's registry says of a unit's files.

(reference: sync-stack 4.6)
"""

from __future__ import annotations

from collections.abc import Callable

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.shaping import Schema, Unfetched
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.execution.attempt import Attempt, RuleSync
from sync_stack.orchestrator.execution.sources import git_source
from sync_stack.repositories import GitError
from sync_stack.repositories.schemas import Registry

FindSchema = Callable[[str], Schema | Unfetched | None]


def refresh_schemas(attempt: Attempt) -> None:
    """After a push to the registry. Raises TaskError, GitError, SecretError."""
    registry = _registry(attempt)
    if registry is None:
        raise TaskError("rule_removed", "the bundle has no schema registry any more")
    attempt.ports.schemas.refresh(registry)


def schemas_for(attempt: Attempt, part: RuleSync) -> FindSchema:
    """File → its schema, all of one commit of the registry; a registry is asked once a unit.

    The central `file_name` decides where the repository names another file: a repository cannot
    choose what it is checked against.
    """
    try:
        registry = _registry(attempt)
        if registry is None:
            return lambda _file: None
        shelf = attempt.ports.schemas.shelf(registry)
    except (GitError, SecretError) as error:
        unfetched = Unfetched(reason=str(error))
        return lambda _file: unfetched

    def find(file: str) -> Schema | Unfetched | None:
        try:
            return shelf.schema_of(file, central_file=part.rule.file_name)
        except GitError as error:
            return Unfetched(reason=str(error))

    return find


def _registry(attempt: Attempt) -> Registry | None:
    bundle: Bundle = attempt.bundle
    found = bundle.schema_registry
    if found is None:
        return None
    platform = bundle.platform(found.platform)
    source = git_source(platform, None, found.repo, attempt.ports.resolve)
    return Registry(source=source, branch=found.branch, path=found.path.strip("/"))
