"""The schemas that the files of a rule are checked against, from the registry of the bundle.

(reference: sync-stack 4.6)
"""

from __future__ import annotations

from collections.abc import Callable

from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.shaping.schema import Schema, Unfetched
from sync_stack.core.tasks import TaskError
from sync_stack.orchestrator.services.execution.attempt import Attempt
from sync_stack.orchestrator.services.execution.ref_state import git_source
from sync_stack.repositories import GitError
from sync_stack.repositories.schemas import RegistryFolder

FindSchema = Callable[[str], Schema | Unfetched | None]


def refresh_schemas(attempt: Attempt) -> None:
    """Fetch the registry after a push to it. Raises TaskError, GitError, SecretError."""
    registry = _registry(attempt)
    if registry is None:
        raise TaskError("rule_removed", "the bundle no longer has a schema registry")
    attempt.ports.schemas.refresh(registry)


def schemas_for(attempt: Attempt, rule: Rule) -> FindSchema:
    """Return a function from a file to its schema, all of one commit of the registry.

    The central `file_name` selects the schema even if the repository names another file: a
    repository cannot choose what it is checked against.
    """
    try:
        registry = _registry(attempt)
        if registry is None:
            return lambda _file: None
        schemas = attempt.ports.schemas.at_head(registry)
    except (GitError, SecretError) as error:
        unfetched = Unfetched(reason=str(error))
        return lambda _file: unfetched

    def find(file: str) -> Schema | Unfetched | None:
        try:
            return schemas.schema_of(file, central_file=rule.file_name)
        except GitError as error:
            return Unfetched(reason=str(error))

    return find


def _registry(attempt: Attempt) -> RegistryFolder | None:
    bundle = attempt.bundle
    found = bundle.schema_registry
    if found is None:
        return None
    platform = bundle.platform(found.platform)
    source = git_source(platform, None, found.repo, attempt.ports.resolve)
    return RegistryFolder(source=source, branch=found.branch, path=found.path.strip("/"))
