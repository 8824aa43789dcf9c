"""The files of a suite are fetched once for the steps of a supervisor."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from worker.domain.suite_files import KeptArchives, SuiteFiles

FILES = b"the archive"
DIGEST = f"sha256:{hashlib.sha256(FILES).hexdigest()}"


class Source:
    """A control plane that counts how often it is asked; `fails` is raised at the first call."""

    def __init__(self, body: bytes = FILES, *, fails: Exception | None = None) -> None:
        self.body = body
        self.calls = 0
        self._fails = fails

    async def fetch(self) -> bytes:
        self.calls += 1
        await asyncio.sleep(0)
        if self._fails and self.calls == 1:
            raise self._fails
        return self.body


async def test_steps_at_once_and_later_ones_share_one_fetch() -> None:
    files, source = SuiteFiles(), Source()

    at_once = await asyncio.gather(*(files.get(DIGEST, source.fetch) for _ in range(5)))
    later = await files.get(DIGEST, source.fetch)

    assert [*at_once, later] == [FILES] * 6
    assert source.calls == 1


async def test_what_does_not_have_its_digest_is_never_kept() -> None:
    files, forged = SuiteFiles(), Source(b"something else")
    await files.get(DIGEST, forged.fetch)

    assert await files.get(DIGEST, Source().fetch) == FILES


async def test_a_fetch_that_fails_leaves_the_next_to_try() -> None:
    files, source = SuiteFiles(), Source(fails=OSError("away"))
    with pytest.raises(OSError, match="away"):
        await files.get(DIGEST, source.fetch)

    assert await files.get(DIGEST, source.fetch) == FILES


async def test_files_without_a_digest_are_fetched_each_time() -> None:
    files, source = SuiteFiles(), Source()

    await files.get("", source.fetch)
    await files.get("", source.fetch)

    assert source.calls == 2


def test_the_oldest_archives_go_when_there_is_no_room() -> None:
    kept = KeptArchives(limit=10)
    kept.keep("a", b"12345")
    kept.keep("b", b"12345")
    kept.get("a")

    kept.keep("c", b"12345")

    assert [kept.get(key) for key in "abc"] == [b"12345", None, b"12345"]
