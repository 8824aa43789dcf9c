"""Configuration files in Git: read with the git program at one commit, never checked out."""

from sync_stack.repositories.entry import TreeEntry
from sync_stack.repositories.git import Remote, Repositories, Signature
from sync_stack.repositories.program import GitError, RepositorySource

__all__ = ["GitError", "Remote", "Repositories", "RepositorySource", "Signature", "TreeEntry"]
