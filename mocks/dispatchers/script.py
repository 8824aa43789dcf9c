"""`script`: the example that a Starlark script names, in a child process."""

from __future__ import annotations

from mocks.engine.dispatch import Call, Candidate, Candidates, dispatchers
from mocks.model.ports import ScriptFailed
from surfaces.model import ScriptRules


@dispatchers.register("script")
async def pick_by_script(candidates: Candidates, call: Call) -> Candidate | None:
    """Return the example that the script names, None if it names none; raise ScriptFailed."""
    rules, request = call.rules, call.request
    assert isinstance(rules, ScriptRules), "an operation without its script has a problem"
    name = await call.scripts.run(
        rules.source,
        defines_function=rules.defines_function,
        request={
            "method": request.method,
            "path": request.path,
            "params": dict(request.params),
            "query": dict(request.query),
            "headers": dict(request.headers),
            "body": request.body,
            "rawBody": request.raw_body.decode(errors="replace"),
        },
        state=call.state,
    )
    if name is None:
        return None
    if name not in candidates.by_name:
        raise ScriptFailed(f'the script names the example "{name[:80]}", which does not exist')
    return candidates.by_name[name]
