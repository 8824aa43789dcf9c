"""The git program against real repositories, on disk and behind `git http-backend`."""

from __future__ import annotations

import os
import shutil
import threading
import time
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from kernel import clock
from sync_stack.repositories import GitError, Repositories, RepositorySource
from sync_stack.repositories import git as git_module
from tests.support.git_server import HttpGit, Repository, served


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "git")


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path / "cache", allow_file=True)


def source(repository: Repository) -> RepositorySource:
    return RepositorySource(url=repository.url)


def read(
    repositories: Repositories, where: RepositorySource, commit: str, path: str
) -> bytes | None:
    repositories.fetch(where, commit)
    return repositories.read(where, commit, path, max_bytes=2**20)


def refused(repositories: Repositories, repository: Repository, path: str) -> str:
    with pytest.raises(GitError) as caught:
        read(repositories, source(repository), repository.head(), path)
    return caught.value.code


def test_the_remote_names_its_default_branch_and_its_refs(repository, repositories):
    commit = repository.commit({"app.yaml": "a: 1\n"})
    repository.git("tag", "-a", "v1", "-m", "v1")
    repository.push("v1")
    remote = repositories.ls_remote(source(repository))
    assert remote.head_branch == "main"
    assert remote.refs == {"refs/heads/main": commit, "refs/tags/v1": commit}


def test_a_file_is_read_at_the_commit_that_was_asked_for(repository, repositories):
    """Sync invariant 8."""
    first = repository.commit({"app.yaml": "a: 1\n"})
    second = repository.commit({"app.yaml": "a: 2\n"})
    where = source(repository)
    assert read(repositories, where, second, "app.yaml") == b"a: 2\n"
    assert read(repositories, where, first, "app.yaml") == b"a: 1\n"


def test_a_path_that_the_commit_does_not_have_is_none(repository, repositories):
    commit = repository.commit({"app.yaml": "a: 1\n"})
    assert read(repositories, source(repository), commit, "config/app.yaml") is None


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/./b", "a\\b", "a\0b", ""])
def test_a_path_that_leads_elsewhere_is_refused(repository, repositories, path):
    """Sync invariant 29."""
    repository.commit({"app.yaml": "a: 1\n"})
    assert refused(repositories, repository, path) == "file_missing"


def test_symbolic_links_are_not_followed(repository, repositories):
    (repository.work / "app.yaml").symlink_to("/etc/passwd")
    (repository.work / "config").symlink_to("/etc")
    repository.commit({})
    assert refused(repositories, repository, "app.yaml") == "path_is_symlink"
    assert refused(repositories, repository, "config/passwd") == "path_is_symlink"


def test_a_submodule_and_a_pointer_of_lfs_are_named_as_such(repository, repositories):
    head = repository.commit({"lfs.json": "version https://git-lfs.github.com/spec/v1\noid x\n"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendor")
    repository.git("commit", "-q", "-m", "submodule")
    repository.push("main")
    assert refused(repositories, repository, "vendor") == "path_is_submodule"
    assert refused(repositories, repository, "lfs.json") == "lfs_pointer"


def test_a_file_beyond_the_limit_is_refused(repository, repositories):
    commit = repository.commit({"app.yaml": "a" * 2000})
    repositories.fetch(source(repository), commit)
    with pytest.raises(GitError) as caught:
        repositories.read(source(repository), commit, "app.yaml", max_bytes=1000)
    assert (caught.value.code, caught.value.file) == ("file_too_large", "app.yaml")


def test_a_commit_that_was_forced_away_is_not_found_when_nobody_has_it(repository, repositories):
    """Sync invariant 19."""
    repository.commit({"app.yaml": "a: 1\n"})
    with pytest.raises(GitError) as caught:
        repositories.fetch(source(repository), "0123456789" * 4)
    assert caught.value.code == "commit_not_found"


def test_a_server_that_gives_refs_only_is_asked_for_the_ref(repository, repositories):
    first = repository.commit({"app.yaml": "a: 1\n"})
    for number in range(3):
        repository.commit({"app.yaml": f"b: {number}\n"})
    repository.git("config", "uploadpack.allowAnySHA1InWant", "false", cwd=repository.bare)
    repository.git("config", "protocol.version", "0", cwd=repository.bare)
    repositories.fetch(source(repository), first, ref="refs/heads/main")
    assert repositories.has(source(repository), first)


def test_a_missing_repository_is_no_missing_file(repositories, tmp_path):
    """Sync invariant 19."""
    with pytest.raises(GitError) as caught:
        repositories.ls_remote(RepositorySource(url=f"file://{tmp_path}/none"))
    assert caught.value.code == "repository_not_found"


def test_files_are_read_in_tests_only(repository, tmp_path):
    """Sync invariant 29: file:// never in production."""
    with pytest.raises(GitError):
        Repositories(tmp_path / "cache").ls_remote(source(repository))


def test_a_look_for_a_commit_in_the_cache_starts_no_fetch(
    repository, repositories, tmp_path, monkeypatch
):
    """A fetch that is refused at once ended the look itself now and then, by SIGPIPE."""
    first = repository.commit({"app.yaml": "a: 1\n"})
    repositories.fetch(source(repository), first)
    missing = repository.commit({"app.yaml": "a: 2\n"})
    trace, wrapper = tmp_path / "trace", tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nGIT_TRACE={trace} exec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    assert not repositories.has(source(repository), missing)
    assert repositories.has(source(repository), first)
    assert missing in trace.read_text()
    assert "fetch" not in trace.read_text()


def test_a_corrupt_entry_of_the_cache_is_made_again(repository, repositories, tmp_path):
    commit = repository.commit({"app.yaml": "a: 1\n"})
    where = source(repository)
    read(repositories, where, commit, "app.yaml")
    for path in (tmp_path / "cache").glob("*.git/objects/*"):
        shutil.rmtree(path)
    assert read(repositories, where, commit, "app.yaml") == b"a: 1\n"


def test_the_cache_keeps_the_entries_used_last(tmp_path):
    repositories = Repositories(tmp_path / "cache", max_entries=2, allow_file=True)
    three = [Repository(tmp_path / name, f"a/{name}") for name in ("one", "two", "three")]
    for each in three:
        repositories.fetch(source(each), each.commit({"f": "1"}))
        time.sleep(0.01)
    kept = [repositories.has(source(each), each.head()) for each in three]
    assert kept == [False, True, True]


def test_workers_that_fetch_at_once_wait_for_one_another(repository, tmp_path):
    commits = [repository.commit({"app.yaml": f"a: {n}\n"}) for n in range(4)]
    found: dict[str, bytes | None] = {}

    def work(commit: str) -> None:
        mine = Repositories(tmp_path / "cache", allow_file=True)
        found[commit] = read(mine, source(repository), commit, "app.yaml")

    threads = [threading.Thread(target=work, args=(commit,)) for commit in commits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {commit: f"a: {n}\n".encode() for n, commit in enumerate(commits)}


def test_an_entry_that_is_held_too_long_is_a_timeout(tmp_path):
    lock = tmp_path / "entry.lock"
    held = git_module._lock(lock)
    again = git_module._lock(lock, wait_s=0.05)
    with held, pytest.raises(GitError) as caught:
        again.__enter__()
    assert caught.value.code == "git_timeout"


def test_many_files_come_in_one_go(repository, repositories):
    names = [f"config/{number}.yaml" for number in range(20)]
    commit = repository.commit({name: f"n: {name}\n" for name in names})
    where = source(repository)
    repositories.fetch(where, commit)
    tree = repositories.tree(where, commit)
    repositories.bring(where, [tree[name] for name in names])
    assert not repositories._missing(where, {tree[name].id for name in names})
    for name in names:
        content = repositories.content(where, tree[name], max_bytes=100)
        assert content == f"n: {name}\n".encode()


def test_an_applied_commit_stays_in_the_cache(repository, repositories, tmp_path):
    commit = repository.commit({"app.yaml": "a: 1\n"})
    where = source(repository)
    read(repositories, where, commit, "app.yaml")
    repositories.keep(where, "unit-1", commit)
    kept = repository.git("for-each-ref", cwd=repositories._cache.path(where))
    assert kept == f"{commit} commit\trefs/partita/unit-1"


def test_over_http_the_password_reaches_git_but_not_the_disk(repository, repositories, tmp_path):
    """Sync invariant 24: not in process arguments, URLs or .git/config."""
    commit = repository.commit({"app.yaml": "a: 1\n"})
    with served(HttpGit(repository.folder / "bare", password="tok-secret-1")) as site:
        where = RepositorySource(
            url=site.url("acme/shop"), username="x-access-token", password="tok-secret-1"
        )
        assert read(repositories, where, commit, "app.yaml") == b"a: 1\n"
    for path in (tmp_path / "cache").rglob("*"):
        assert not path.is_file() or b"tok-secret-1" not in path.read_bytes()


def test_a_wrong_password_is_git_auth_and_not_shown(repository, repositories):
    """Sync invariant 19."""
    repository.commit({"app.yaml": "a: 1\n"})
    with served(HttpGit(repository.folder / "bare", password="right")) as site:
        where = RepositorySource(url=site.url("acme/shop"), username="u", password="wrong-password")
        with pytest.raises(GitError) as caught:
            repositories.ls_remote(where)
    assert caught.value.code == "git_auth"
    assert "wrong-password" not in str(caught.value)


def test_a_redirect_is_not_followed_and_the_other_host_gets_nothing(repository, repositories):
    """Sync invariant 28: the clone token is sent to the endpoint's host only."""
    repository.commit({"app.yaml": "a: 1\n"})
    with served(HttpGit(repository.folder / "bare")) as other:
        moved = HttpGit(repository.folder / "bare", redirect_to=f"http://localhost:{other.port}")
        with served(moved), pytest.raises(GitError):
            repositories.ls_remote(
                RepositorySource(url=moved.url("acme/shop"), username="u", password="token-1")
            )
        assert not other.requests


def test_a_repository_that_http_does_not_know_is_not_found(repository, repositories):
    with served(HttpGit(repository.folder / "bare")) as site, pytest.raises(GitError) as caught:
        repositories.ls_remote(RepositorySource(url=site.url("acme/none")))
    assert caught.value.code == "repository_not_found"


def test_a_host_that_is_away_is_unavailable(repositories):
    """Sync invariant 19."""
    with pytest.raises(GitError) as caught:
        repositories.ls_remote(RepositorySource(url="http://127.0.0.1:9/acme/shop.git"))
    assert caught.value.code == "git_unavailable"


@pytest.mark.parametrize("asked", ["45", "date"])
def test_a_busy_host_says_how_long_it_wants_to_be_left_alone(repository, repositories, asked):
    """As seconds or as a date; a token never comes back with it."""
    until = format_datetime(clock.now() + timedelta(seconds=46), usegmt=True)
    site = HttpGit(repository.folder / "bare", busy=until if asked == "date" else asked)
    with served(site):
        where = RepositorySource(url=site.url("acme/shop"), username="u", password="token-1")
        with pytest.raises(GitError) as caught:
            repositories.ls_remote(where)

    assert caught.value.code == "git_unavailable"
    assert caught.value.retry_after_s == pytest.approx(45, abs=2)
    assert "token-1" not in str(caught.value)


def test_a_host_that_is_busy_without_saying_how_long_is_tried_as_any_other(
    repository, repositories
):
    site = HttpGit(repository.folder / "bare", busy="soon")
    with served(site), pytest.raises(GitError) as caught:
        repositories.ls_remote(RepositorySource(url=site.url("acme/shop")))

    assert caught.value.retry_after_s is None


def test_a_host_that_does_not_answer_is_a_timeout(repositories):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = RepositorySource(
            url=f"http://127.0.0.1:{silent.getsockname()[1]}/a/b.git", timeout_s=0.5
        )
        with pytest.raises(GitError) as caught:
            repositories.ls_remote(where)
    assert caught.value.code == "git_timeout"


def test_nothing_of_the_machine_reaches_git(repository, repositories, monkeypatch, tmp_path):
    """Sync invariant 29: no hook, no configuration of the user."""
    marker = tmp_path / "ran"
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\n\tfsmonitor = touch {marker}\n\tsshCommand = touch {marker}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    commit = repository.commit({"app.yaml": "a: 1\n"})
    hook = repository.bare / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    os.chmod(hook, 0o755)  # noqa: PTH101
    assert read(repositories, source(repository), commit, "app.yaml") == b"a: 1\n"
    assert not marker.exists()
