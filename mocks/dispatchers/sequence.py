"""`sequence`: the matches, or the examples that the rules name, one after the other."""

from __future__ import annotations

from mocks.engine.dispatch import Call, Candidate, Candidates, dispatchers
from surfaces.model import SequenceRules


@dispatchers.register("sequence")
async def pick_next(candidates: Candidates, call: Call) -> Candidate | None:
    rules = call.rules
    if not isinstance(rules, SequenceRules):
        matches = candidates.matches(call.request, call.state)
        return matches[await call.draw() % len(matches)] if matches else None
    drawn, last = await call.draw(), len(rules.names) - 1
    place = min(drawn, last) if rules.once else drawn % len(rules.names)
    return candidates.by_name.get(rules.names[place])
