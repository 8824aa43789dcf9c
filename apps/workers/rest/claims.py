"""`POST /api/v1/agent-control/claims/next`: claim a step, or none after a while.

A waiting request holds neither a thread nor a connection to the store. A step that follows what the
worker completes comes with that completion; a nudge tells of others.

(reference: control-plane 15.1, 15.2)
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Hashable, Iterator
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
from apps.workers.rest import inputs
from apps.workers.rest.claim_turns import claim_turns
from apps.workers.rest.credentials import UNCACHED, AgentCredentialInvalid, AgentView
from apps.workers.services.remote_workers import WaitingClaim, record, supervisor_of
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
        responses={200: StepSpecBody, 204: None},
    )
    async def post(self, request: HttpRequest) -> HttpResponse:
        """The next step for this agent; 204 when there is none within `waitSeconds`."""
        body = await _on_thread(lambda: self.own_body(inputs.ClaimInput))
        spec = await _next_step(self.agent, body["startAhead"], body["waitSeconds"])
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


async def _next_step(agent: Agent, starts_ahead: int, wait_s: float) -> StepSpecBody | None:
    """Claim a step within `wait_s`; a draining server does not wait.

    If the client disconnects meanwhile, the step is released.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    with _work_nudges(agent) as (nudged, wake), claim_turns.waiting(_kind(agent), wake) as turn:
        claim = WaitingClaim(supervisor_of(agent), starts_ahead=starts_ahead, wake=wake)
        try:
            while True:
                nudged.clear()
                is_its_turn = turn.has_come
                waits = loop.time() < deadline and not is_draining()
                spec = await _claim(agent, partial(_claim_now, agent, claim, waits=waits))
                if spec is not None or not waits:
                    return spec
                if is_its_turn:
                    claim_turns.take_part(turn)
                left = max(0.0, deadline - loop.time())
                with suppress(TimeoutError):
                    await asyncio.wait_for(nudged.wait(), min(POLL_INTERVAL_S, left))
        except BaseException:
            _submit(claim.leave).add_done_callback(partial(_release, agent))
            raise


def _kind(agent: Agent) -> Hashable:
    """Return what is the same for workers that may claim the same steps of new runs."""
    labels = tuple(sorted(agent.labels.items()))
    return agent.backends, agent.capabilities, labels, agent.draining


@contextmanager
def _work_nudges(agent: Agent) -> Iterator[tuple[asyncio.Event, Callable[[], None]]]:
    """Yield an event, set when a step may wait for this agent, and what sets it.

    Steps of runs that are not bound yet are told of by turns.
    """
    loop, nudged = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(nudged.set)

    names = (executions.WORK_NUDGE, executions.work_nudge(agent.agent_id))
    unsubscribe = [listen(name, wake) for name in names]
    try:
        yield nudged, wake
    finally:
        for each in unsubscribe:
            each()


async def _claim(agent: Agent, claim_now: Callable[[], StepSpecBody | None]) -> StepSpecBody | None:
    """Claim a step; if the client disconnects meanwhile, release it."""
    claiming = _submit(claim_now)
    try:
        return await asyncio.shield(asyncio.wrap_future(claiming))
    except asyncio.CancelledError:
        claiming.add_done_callback(partial(_release, agent))
        raise


def _claim_now(agent: Agent, claim: WaitingClaim, *, waits: bool) -> StepSpecBody | None:
    """Claim a step. Raises AgentCredentialInvalid if the agent has registered again."""
    if spec := claim.take():
        return spec
    if get_agent(agent.agent_id).incarnation != agent.incarnation:
        raise AgentCredentialInvalid
    return claim.claim(waits=waits)


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
