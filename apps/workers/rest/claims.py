"""`POST /api/v1/agent-control/claims/next`: claim a step, or none after a while.

A waiting request holds neither a thread nor a connection to the store; a nudge wakes it.

(reference: control-plane 15.1, 15.2)
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from drf_spectacular.utils import extend_schema

from apps.agents.api import Agent, get_agent
from apps.executions import api as executions
from apps.operations.api import is_draining
from apps.streams.api import listen, then_disconnect
from apps.workers.rest import inputs, schemas
from apps.workers.rest.credentials import UNCACHED, AgentCredentialInvalid, AgentView
from apps.workers.services.remote_workers import claim, record, supervisor_of
from kernel.agent_protocol import Completion, StepSpecBody, job_of

T = TypeVar("T")
POLL_INTERVAL_S: Final = 1.0  # nudges may be lost, and due retries send none
_ALLOWED: Final = "POST, OPTIONS"
_threads = ThreadPoolExecutor(4, thread_name_prefix="claims")


class ClaimView(AgentView):
    """An asynchronous view; DRF's checks run on a thread."""

    http_method_names = ["post", "options"]

    @extend_schema(
        operation_id="claims_next",
        request=inputs.ClaimInput,
        responses={200: schemas.StepSpec, 204: None},
    )
    async def post(self, request: HttpRequest) -> HttpResponse:
        """The next step for this agent; 204 when there is none within `waitSeconds`."""
        body = await _on_thread(lambda: self.own_body(inputs.ClaimInput))
        claim_now = partial(_claim_now, self.agent, body["startAhead"])
        spec = await _next_step(self.agent, claim_now, body["waitSeconds"])
        if spec is None:
            return HttpResponse(status=204)
        return JsonResponse(spec, headers=UNCACHED)

    async def options(self, request: HttpRequest) -> HttpResponse:  # type: ignore[override]
        return HttpResponse(status=204, headers={"Allow": _ALLOWED})

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]
        """Dispatch as Django does, because DRF does not support asynchronous handlers."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request)
        await _on_thread(partial(self.initial, self.request))
        if request.method == "POST":
            return await self.post(request)
        if request.method == "OPTIONS":
            return await self.options(request)
        return HttpResponseNotAllowed(_ALLOWED.split(", "))


async def _next_step(
    agent: Agent, claim_now: Callable[[], StepSpecBody | None], wait_s: float
) -> StepSpecBody | None:
    """Claim a step within `wait_s`; a draining server does not wait."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    with _work_nudges() as nudged:
        while True:
            nudged.clear()
            spec = await _claim(agent, claim_now)
            left = deadline - loop.time()
            if spec is not None or left <= 0 or is_draining():
                return spec
            with suppress(TimeoutError):
                await asyncio.wait_for(nudged.wait(), min(POLL_INTERVAL_S, left))


@contextmanager
def _work_nudges() -> Iterator[asyncio.Event]:
    loop, nudged = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(nudged.set)

    unsubscribe = listen(executions.WORK_NUDGE, wake)
    try:
        yield nudged
    finally:
        unsubscribe()


async def _claim(agent: Agent, claim_now: Callable[[], StepSpecBody | None]) -> StepSpecBody | None:
    """Claim a step; if the client disconnects meanwhile, release it."""
    claiming = _submit(claim_now)
    try:
        return await asyncio.shield(asyncio.wrap_future(claiming))
    except asyncio.CancelledError:
        claiming.add_done_callback(partial(_release, agent))
        raise


def _claim_now(agent: Agent, starts_ahead: int) -> StepSpecBody | None:
    """Claim a step. Raises AgentCredentialInvalid if the agent has registered again."""
    if get_agent(agent.agent_id).incarnation != agent.incarnation:
        raise AgentCredentialInvalid
    return claim(supervisor_of(agent), starts_ahead=starts_ahead)


def _release(agent: Agent, claiming: Future[StepSpecBody | None]) -> None:
    spec = None if claiming.exception() else claiming.result()
    if spec is not None:
        unread = Completion(job=job_of(spec), status="canceled")
        _submit(partial(record, supervisor_of(agent), unread))


async def _on_thread(work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(_submit(work))


def _submit(work: Callable[[], T]) -> Future[T]:
    """Run the work on a thread, in the context of this request."""
    return _threads.submit(contextvars.copy_context().run, then_disconnect, work)
