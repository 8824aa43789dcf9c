"""An engine under load answers 5xx to what succeeds a moment later."""

from __future__ import annotations

import pytest
import requests

from worker.runtimes.docker import engine
from worker.runtimes.docker.engine import APIError, repeat_after_server_errors


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_REPEAT_PAUSES_S", (0.0, 0.0, 0.0))


def answered(status: int) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError(f"{status}", response=response)


class Work:
    """Raises these errors, one a call, then succeeds."""

    def __init__(self, *statuses: int) -> None:
        self.left = list(statuses)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.left:
            raise answered(self.left.pop(0))
        return "started"


async def test_a_start_is_tried_again_after_server_errors():
    work = Work(500, 503, 500)

    assert await repeat_after_server_errors(work) == "started"
    assert work.calls == 4


async def test_a_server_error_that_stays_is_raised_after_four_tries():
    work = Work(*[500] * 9)

    with pytest.raises(APIError):
        await repeat_after_server_errors(work)
    assert work.calls == 4


@pytest.mark.parametrize("status", [400, 404, 409])
async def test_a_mistake_of_the_caller_is_not_repeated(status: int):
    work = Work(status, 500)

    with pytest.raises(APIError):
        await repeat_after_server_errors(work)
    assert work.calls == 1
