"""Whatever is misspelled or wrong in a metadata file is named with its place (control-plane 6.2).

The mark ¶ stands before the value at which the mistake is told.
"""

from __future__ import annotations

import pytest

from tests.support.mock_file_mistakes import told

FILES = {
    "mock/s/op.yaml": "examples: {accepted: {}, refused: {when: [{from: query, param: q, value: x}]}}",
    "api/s.yaml": "openapi: 3.0.3\npaths: {/op: {post: {operationId: op, responses: {}}}}",
}

# ruff: noqa: E501
MISTAKES = [
    # the file
    ("sepc: ¶{method: GET}", "did you mean spec?"),
    ("metdata: ¶{operationId: op}", "did you mean metadata?"),
    ("apiVerson: ¶v1", "did you mean apiVersion?"),
    ("kind: ¶MockSurfac\nspec: {validate: 'off'}", "did you mean MockSurface?"),
    ("kind: ¶MockOperaton", "did you mean MockOperation?"),
    ("kind: ¶[MockOperation]", "kind must be a text"),
    ("fallback: ¶{mode: static}", "belongs below spec"),
    ("spec: ¶text", "spec must be a mapping"),
    ("metadata: ¶[op]", "metadata must be a mapping"),
    ("¶- spec", "the file must be a mapping"),
    ("metadata: {operatonId: ¶op}", "did you mean operationId?"),
    ("metadata: {surfce: ¶s}", "did you mean surface?"),
    ("metadata: {surfaceTitel: ¶s}", "did you mean surfaceTitle?"),
    ("metadata: {sourceArtefact: ¶api/s.yaml}", "did you mean sourceArtifact?"),
    ("metadata: {operationId: ¶[op]}", "operationId must be a text"),
    ("metadata: {surface: ¶{a: b}}", "surface must be a text"),
    ("metadata: {contractPath: ¶api/none.yaml}", "is not a file of the suite"),
    ("metadata: {contractPath: ¶'api/s.yaml#opp'}", "does not declare"),
    # spec
    ("spec: {protocl: ¶REST}", "did you mean protocol?"),
    ("spec: {adaptr: ¶rest}", "did you mean adapter?"),
    ("spec: {methd: ¶GET}", "did you mean method?"),
    ("spec: {pth: ¶/op}", "did you mean path?"),
    ("spec: {sumary: ¶x}", "did you mean summary?"),
    ("spec: {contractPaht: ¶api/s.yaml}", "did you mean contractPath?"),
    ("spec: {mockPaht: ¶mock/s/op.yaml}", "did you mean mockPath?"),
    ("spec: {dispacher: ¶sequence}", "did you mean dispatcher?"),
    ("spec: {dispatcherRule: ¶'accepted'}", "did you mean dispatcherRules?"),
    ("spec: {delayMilis: ¶5}", "did you mean delayMillis?"),
    ("spec: {fualt: ¶reset}", "did you mean fault?"),
    ("spec: {ratelimits: ¶{calls: 1, per: 1s}}", "did you mean rateLimit?"),
    ("spec: {validat: ¶warn}", "did you mean validate?"),
    ("spec: {parameterConstraint: ¶[]}", "did you mean parameterConstraints?"),
    ("spec: {falback: ¶{mode: static}}", "did you mean fallback?"),
    ("spec: {sate: ¶{}}", "did you mean state?"),
    ("spec: {resolverURI: ¶/x}", "did you mean resolverUrl?"),
    ("spec: {method: ¶PSOT}", "did you mean POST?"),
    ("spec: {protocol: ¶grcp}", "did you mean gRPC?"),
    ("spec: {protocol: ¶Kakfa}", "did you mean kafka?"),
    ("spec: {method: ¶[GET]}", "method must be a text"),
    ("spec: {path: ¶[/op]}", "path must be a text"),
    ("spec: {summary: ¶{a: b}}", "summary must be a text"),
    ("spec: {mockPath: ¶mock/s/none.yaml}", "is not a file of the suite"),
    ("spec: {adapter: ¶rset}", "did you mean rest?"),
    ("spec: {adapter: ¶[rest]}", "is not known"),
    ("spec: {dispatcher: ¶exmaple}", "did you mean example?"),
    ("spec: {dispatcher: ¶sequnce, dispatcherRules: accepted}", "did you mean sequence?"),
    ("spec: {validate: ¶enforc}", "did you mean enforce?"),
    ("spec: {validate: ¶true}", "known: off, warn, enforce"),
    # rules of dispatchers
    ("spec: {dispatcher: sequence, dispatcherRules: ¶'accepted,,refused'}", "a sequence is a list of names"),
    ("spec: {dispatcher: sequence, dispatcherRules: ¶'acepted'}", "did you mean accepted?"),
    ("spec: {dispatcher: sequence, dispatcherRules: ¶[accepted]}", "dispatcherRules must be a text"),
    ("spec: {dispatcher: random, dispatcherRules: ¶'accepted:3'}", "neither"),
    ("spec: {dispatcher: random, dispatcherRules: ¶'refusd=3'}", "did you mean refused?"),
    ("spec: {dispatcher: ¶script}", "requires dispatcherRules"),
    ("spec: {dispatcher: script, dispatcherRules: ¶'a +'}", "not Starlark"),
    ("spec: {dispatcherRules: ¶'accepted, refused'}", "the dispatcher example has no rules"),
    # delays, faults, limits
    ("spec: {delayMillis: ¶soon}", "delayMillis must be an integer"),
    ("spec: {delayMillis: ¶99999}", "delayMillis must be an integer"),
    ("spec: {delay: ¶5}", "delay needs a unit"),
    ("spec: {delay: {fxied: ¶5ms}}", "did you mean fixed?"),
    ("spec: {delay: {lognormal: {median: 1s, sigam: ¶1}}}", "did you mean sigma?"),
    ("spec: {fault: ¶garbge}", "did you mean garbage?"),
    ("spec: {fault: {dribble: {chunks: 5, ovr: ¶1s}}}", "did you mean over?"),
    ("spec: {fault: ¶EMPTY_RESPONSE}", "write empty"),
    ("spec: {rateLimit: ¶10}", "rateLimit is a mapping"),
    ("spec: {rateLimit: {call: ¶1, per: 1s}}", "did you mean calls?"),
    ("spec: {rateLimit: {calls: ¶none, per: 1s}}", "calls must be an integer"),
    ("spec: {rateLimit: {calls: 1, per: ¶1}}", "per needs a unit"),
    # parameter constraints
    ("spec: {parameterConstraints: [{nmae: ¶q}]}", "did you mean name?"),
    ("spec: {parameterConstraints: [{name: q, sorce: ¶query}]}", "did you mean source?"),
    ("spec: {parameterConstraints: [{name: q, requierd: ¶true}]}", "did you mean required?"),
    ("spec: {parameterConstraints: [{name: q, forwrd: ¶true}]}", "did you mean forward?"),
    ("spec: {parameterConstraints: [{name: q, pattrn: ¶a}]}", "did you mean pattern?"),
    ("spec: {parameterConstraints: [{name: q, source: ¶heder}]}", "did you mean header?"),
    ("spec: {parameterConstraints: [{name: q, required: ¶'yes'}]}", "required must be true or false"),
    ("spec: {parameterConstraints: [{name: q, forward: ¶1}]}", "forward must be true or false"),
    ("spec: {parameterConstraints: [{name: q, pattern: ¶'('}]}", "regular expression (RE2)"),
    ("spec: {parameterConstraints: [¶{source: query}]}", "requires name"),
    ("spec: {parameterConstraints: [¶q]}", "must be a mapping"),
    # fallbacks
    ("spec: {fallback: ¶text}", "fallback must be a mapping"),
    ("spec: {fallback: {mod: ¶static}}", "did you mean mode?"),
    ("spec: {fallback: {mode: ¶statc}}", "did you mean static?"),
    ("spec: {fallback: {mode: ¶[static]}}", "is not a fallback mode"),
    ("spec: {fallback: {exampelName: ¶accepted}}", "did you mean exampleName?"),
    ("spec: {fallback: {exampleName: ¶acepted}}", "did you mean accepted?"),
    ("spec: {fallback: {proxyUlr: ¶'http://a/'}}", "did you mean proxyUrl?"),
    ("spec: {fallback: {proxyUrl: ¶'ftp://a/'}}", "begins with http:// or https://"),
    ("spec: {fallback: ¶{mode: proxy}}", "requires proxyUrl"),
    ("spec: {fallback: ¶{mode: example}}", "requires exampleName"),
    ("spec: {fallback: {staus: ¶'404'}}", "did you mean status?"),
    ("spec: {fallback: {status: ¶none}}", '"none" is not a status'),
    ("spec: {fallback: {status: ¶[404]}}", '"" is not a status'),
    ("spec: {fallback: {mediaTyp: ¶text/plain}}", "did you mean mediaType?"),
    ("spec: {fallback: {hedaers: ¶{}}}", "did you mean headers?"),
    ("spec: {fallback: {headers: ¶x}}", "headers must be a mapping or a list"),
    ("spec: {fallback: {bdy: ¶x}}", "did you mean body?"),
    ("spec: {fallback: {body: ¶'{{request.paht.id}}'}}", "request.paht"),
    # state
    ("spec: {state: ¶text}", "state must be a mapping"),
    ("spec: {state: {lookupKeyTemplte: ¶a}}", "did you mean lookupKeyTemplate?"),
    ("spec: {state: {mutationKey: ¶a}}", "did you mean mutationKeyTemplate?"),
    ("spec: {state: {default: ¶{}}}", "did you mean defaults?"),
    ("spec: {state: {transition: ¶[]}}", "did you mean transitions?"),
    ("spec: {state: {lookupKeyTemplate: ¶[a]}}", "lookupKeyTemplate must be a text"),
    ("spec: {state: {lookupKeyTemplate: ¶'{{request.pth.id}}'}}", "request.pth"),
    ("spec: {state: {defaults: ¶[a]}}", "expected a mapping of texts"),
    ("spec: {state: {defaults: {a: ¶{b: 1}}}}", "expected a text"),
    ("spec: {state: {transitions: ¶text}}", "a transition must be a mapping"),
    ("spec: {state: {transitions: [{onExmaple: ¶accepted}]}}", "did you mean onExample?"),
    ("spec: {state: {transitions: [{onExample: ¶acepted}]}}", "did you mean accepted?"),
    ("spec: {state: {transitions: [{onExample: ¶[accepted]}]}}", "onExample must be a text"),
    ("spec: {state: {transitions: [{sett: ¶{a: b}}]}}", "did you mean set?"),
    ("spec: {state: {transitions: [{set: ¶[a]}]}}", "expected a mapping of texts"),
    ("spec: {state: {transitions: [{set: {a: ¶'{{stat.b}}'}}]}}", "stat.b"),
    ("spec: {state: {transitions: [{delte: ¶[a]}]}}", "did you mean delete?"),
    ("spec: {state: {transitions: [{delete: ¶{a: 1}}]}}", "delete must be a list"),
    ("spec: {state: {transitions: [{incremnt: ¶{a: 1}}]}}", "did you mean increment?"),
    ("spec: {state: {transitions: [{increment: {a: ¶many}}]}}", "must be an integer"),
    ("spec: {state: {transitions: [{increment: ¶[a]}]}}", "increment must be a mapping"),
    # a file of a surface
    ("kind: MockSurface\nmetadata: {surfce: ¶s}", "did you mean surface?"),
    ("kind: MockSurface\nmetadata: {surface: ¶shop}", "no surface is called"),
    ("kind: MockSurface\nsepc: ¶{}", "did you mean spec?"),
    ("kind: MockSurface\nspec: {validte: ¶warn}", "did you mean validate?"),
    ("kind: MockSurface\nspec: {validate: ¶wrn}", "did you mean warn?"),
    ("kind: MockSurface\nspec: {rateLimits: ¶{}}", "did you mean rateLimit?"),
    ("kind: MockSurface\nspec: {rateLimit: {calls: 5, pre: ¶1s}}", "did you mean per?"),
    ("kind: MockSurface\nspec: ¶warn", "spec must be a mapping"),
    ("kind: MockSurface\nmetadata: ¶s", "metadata must be a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), MISTAKES)
def test_a_mistake_in_a_metadata_file_is_named_with_its_place(text, says):
    at_mark, every = told("mock/s/op.metadata.yaml", text, FILES)

    assert any(says in detail for detail in at_mark), every or "silent"
