"""`example`: the best match, most conditions first, then the order of the file."""

from __future__ import annotations

from mocks.engine.dispatch import Call, Candidate, Candidates, dispatchers


@dispatchers.register("example")
async def pick_example(candidates: Candidates, call: Call) -> Candidate | None:
    return candidates.best(call.request, call.state)
