"""Whatever is misspelled or wrong in an example file is named with its place (control-plane 6.3).

The mark ¶ stands before the value at which the mistake is told.
"""

from __future__ import annotations

import pytest

from surfaces import forms
from surfaces.forms import FileNotes
from surfaces.mock_files.exchanges import ExampleFile, ExampleKeys
from surfaces.records import read_record
from surfaces.trees import tree_of
from tests.support.mock_file_mistakes import told

FILES = {
    "mock/s/op.metadata.yaml": "metadata: {operationId: op}",
    "api/s.yaml": "openapi: 3.0.3\npaths: {/op: {post: {operationId: op, responses: {}}}}",
}

# ruff: noqa: E501
MISTAKES = [
    # the file
    ("exampels: ¶{a: {}}", "did you mean examples?"),
    ("example: ¶{a: {}}", "did you mean examples?"),
    ("examples: {a: {}}\noperation_id: ¶op", "did you mean operationId?"),
    ("examples: {a: {}}\noperatoinId: ¶op", "did you mean operationId?"),
    ("examples: {a: {}}\ncontractPaht: ¶api/s.yaml", "did you mean contractPath?"),
    ("examples: {a: {}}\noperationId: ¶[op]", "operationId must be a text"),
    ("examples: ¶3", "examples must be a mapping"),
    ("examples: ¶a text", "examples must be a mapping"),
    ("¶- a", "the file must be a mapping"),
    ("examples:\n  - ¶{response: {}}", "an example needs a name"),
    ("examples:\n  - {name: a}\n  - ¶{name: a}", 'the name "a" occurs twice'),
    ("examples:\n  a: ¶[]", "it must be a mapping"),
    ("examples:\n  a: ¶text", "it must be a mapping"),
    # an example
    ("examples:\n  a: {whn: ¶[]}", "did you mean when?"),
    ("examples:\n  a: {condition: ¶[]}", "write when"),
    ("examples:\n  a: {matchers: ¶[]}", "write when"),
    ("examples:\n  a: {respones: ¶{status: '201'}}", "did you mean response?"),
    ("examples:\n  a: {requst: ¶{}}", "did you mean request?"),
    ("examples:\n  a: {responseShema: ¶{}}", "did you mean responseSchema?"),
    ("examples:\n  a: {callback: ¶[]}", "did you mean callbacks?"),
    ("examples:\n  a: {webhooks: ¶[]}", "write callbacks"),
    ("examples:\n  a: {responseStaus: ¶'201'}", "did you mean responseStatus?"),
    ("examples:\n  a: {desciption: ¶x}", "did you mean description?"),
    ("examples:\n  a: {description: ¶[x]}", "description must be a text"),
    ("examples:\n  a: {response: ¶ok}", "must be a mapping"),
    ("examples:\n  a: {responseSchema: ¶[ok]}", "must be a mapping"),
    ("examples:\n  a: {request: ¶[]}", "must be a mapping"),
    # a response
    ("examples:\n  a: {response: {staus: ¶'201'}}", "did you mean status?"),
    ("examples:\n  a: {response: {statusCode: ¶201}}", "write status"),
    ("examples:\n  a: {response: {medaiType: ¶text/plain}}", "did you mean mediaType?"),
    ("examples:\n  a: {response: {contentType: ¶text/plain}}", "write mediaType"),
    ("examples:\n  a: {response: {header: ¶{}}}", "did you mean headers?"),
    ("examples:\n  a: {response: {bdoy: ¶x}}", "did you mean body?"),
    ("examples:\n  a: {response: {jsonBody: ¶{}}}", "write body"),
    ("examples:\n  a: {response: {body_file: ¶x.json}}", "did you mean bodyFile?"),
    ("examples:\n  a: {response: {bodyFileName: ¶x.json}}", "write bodyFile"),
    ("examples:\n  a: {response: {delayMilis: ¶5}}", "did you mean delayMillis?"),
    ("examples:\n  a: {response: {fixedDelayMilliseconds: ¶5}}", "write delayMillis"),
    ("examples:\n  a: {response: {fautl: ¶reset}}", "did you mean fault?"),
    ("examples:\n  a: {response: {status: ¶'2OO'}}", '"2OO" is not a status'),
    ("examples:\n  a: {response: {status: ¶[200]}}", "status must be a text"),
    ("examples:\n  a: {responseStatus: ¶{code: 200}}", "responseStatus must be a text"),
    ("examples:\n  a: {response: {mediaType: ¶[text/plain]}}", "mediaType must be a text"),
    ("examples:\n  a: {response: {mediaType: ¶json}}", '"json" is not a media type'),
    ("examples:\n  a: {response: {headers: ¶x}}", "headers must be a mapping or a list"),
    ("examples:\n  a: {response: {headers: {x: ¶{a: 1}}}}", "must be a text"),
    ("examples:\n  a: {response: {headers: [{nmae: ¶x, value: y}]}}", "did you mean name?"),
    ("examples:\n  a: {response: {headers: [{name: x, vlaue: ¶y}]}}", "did you mean value?"),
    ("examples:\n  a: {response: {headers: {x y: ¶z}}}", '"x y" is not the name of a header'),
    ("examples:\n  a: {response: {bodyFile: ¶none.json}}", "is not a file of the suite"),
    ("examples:\n  a: {response: {bodyFile: ¶[x]}}", "bodyFile must be a text"),
    ("examples:\n  a: {response: {bodyBase64: ¶'%%%'}}", "no base64"),
    ("examples:\n  a: {response: {bodyBase64: ¶YQ==, body: x}}", "one of body, bodyFile"),
    ("examples:\n  a: {request: {bdy: ¶x}}", "did you mean body?"),
    ("examples:\n  a: {request: {headers: ¶3}}", "headers must be a mapping or a list"),
    # conditions
    ("examples:\n  a: {when: [{form: ¶query, param: q, value: x}]}", "did you mean from?"),
    ("examples:\n  a: {when: [{from: query, parm: ¶q, value: x}]}", "did you mean param?"),
    ("examples:\n  a: {when: [{from: query, param: q, vlaue: ¶x}]}", "did you mean value?"),
    ("examples:\n  a: {when: [{from: query, param: q, matchs: ¶x}]}", "did you mean matches?"),
    ("examples:\n  a: {when: [{from: query, param: q, contians: ¶x}]}", "did you mean contains?"),
    ("examples:\n  a: {when: [{from: query, param: q, abset: ¶true}]}", "did you mean absent?"),
    ("examples:\n  a: {when: [{from: query, param: q, equalTo: ¶x}]}", "write value"),
    ("examples:\n  a: {when: [{from: body, jsonPaht: ¶$.a, value: x}]}", "did you mean jsonPath?"),
    ("examples:\n  a: {when: [{from: ¶qurey, param: q, value: x}]}", "did you mean query?"),
    ("examples:\n  a: {when: [{from: ¶headers, param: q, value: x}]}", "did you mean header?"),
    ("examples:\n  a: {when: [{from: query, param: q, not: {contain: ¶x}}]}", "did you mean contains?"),
    ("examples:\n  a: {when: [{from: query, param: q, not: ¶x}]}", "write not: {value: x}"),
    ("examples:\n  a: {when: [{anyof: [{from: query, param: q, valu: ¶x}]}]}", "did you mean value?"),
    ("examples:\n  a: {when: [{anyOff: ¶[{from: query, param: q, value: x}]}]}", "did you mean anyOf?"),
    ("examples:\n  a: {when: [{from: query, param: q, gte: ¶many}]}", "expected a number"),
    ("examples:\n  a: {when: [{from: query, param: q, absent: ¶maybe}]}", "write true or false"),
    ("examples:\n  a: {when: [{from: query, param: q, in: ¶a}]}", "in lists values"),
    ("examples:\n  a: {when: [{from: query, param: q, matches: ¶'('}]}", "regular expression (RE2)"),
    ("examples:\n  a: {when: [{from: query, param: q, value: ¶[a]}]}", "several are in: [a, b]"),
    ("examples:\n  a: {when: [{from: query, param: ¶[q], value: x}]}", "param must be a text"),
    ("examples:\n  a: {when: [¶{from: query, param: q}]}", "requires value or another operator"),
    ("examples:\n  a: {when: [¶{from: query, param: q, value: x, gt: 1}]}", "a condition has one of"),
    ("examples:\n  a: {when: [{from: body, jsonPath: ¶'$[', value: x}]}", "the jsonPath $["),
    ("examples:\n  a: {when: [{from: body, xpath: ¶'//[', value: x}]}", "the xpath //["),
    ("examples:\n  a: {when: [{from: body, param: ¶a..b, value: x}]}", "is not a path"),
    ("examples:\n  a: {when: ¶always}", "a condition is a mapping"),
    # templates
    ("examples:\n  a: {response: {body: ¶'{{request.paht.id}}'}}", "request.paht"),
    ("examples:\n  a: {response: {body: {id: ¶'{{reqest.path.id}}'}}}", "reqest"),
    ("examples:\n  a: {response: {body: ¶'{{upperr(request.body.a)}}'}}", "did you mean upper"),
    ("examples:\n  a: {response: {body: ¶'{{nwo()}}'}}", "did you mean now"),
    ("examples:\n  a: {response: {headers: {x: ¶'{{request.hedaers.a}}'}}}", "request.hedaers"),
    ("examples:\n  a: {responseSchema: {body: {template: ¶'{{stat.x}}'}}}", "stat.x"),
    ("examples:\n  a: {responseSchema: {body: {resolve: {path: ¶request.pth.id}}}}", "request.pth"),
    # nodes
    ("examples:\n  a: {responseSchema: {staus: ¶'201'}}", "did you mean status?"),
    ("examples:\n  a: {responseSchema: {body: {typ: ¶object}}}", "did you mean type?"),
    ("examples:\n  a: {responseSchema: {body: {type: object, propertis: ¶{}}}}", "did you mean properties?"),
    ("examples:\n  a: {responseSchema: {body: {type: object, requird: ¶[a]}}}", "did you mean required?"),
    ("examples:\n  a: {responseSchema: {body: {type: array, itmes: ¶{}}}}", "did you mean items?"),
    ("examples:\n  a: {responseSchema: {body: {type: string, minLenght: ¶3}}}", "did you mean minLength?"),
    ("examples:\n  a: {responseSchema: {body: {type: string, patern: ¶a}}}", "did you mean pattern?"),
    ("examples:\n  a: {responseSchema: {body: {type: string, tempalte: ¶x}}}", "did you mean template?"),
    ("examples:\n  a: {responseSchema: {body: {type: string, exmaple: ¶x}}}", "did you mean example?"),
    ("examples:\n  a: {responseSchema: {body: {type: ¶strng}}}", "did you mean string?"),
    ("examples:\n  a: {responseSchema: {body: {properties: ¶[a]}}}", "properties must be a mapping"),
    ("examples:\n  a: {responseSchema: {body: {type: object, required: ¶{a: 1}}}}", "required must be a list"),
    ("examples:\n  a: {responseSchema: {body: {type: integer, minimum: ¶'3'}}}", "minimum must be a number"),
    ("examples:\n  a: {responseSchema: {body: {type: string, minLength: ¶1.5}}}", "minLength must be an integer"),
    ("examples:\n  a: {responseSchema: {body: {enum: [¶{a: 1}]}}}", "single values"),
    ("examples:\n  a: {responseSchema: {body: {pattern: ¶'('}}}", "regular expression (RE2)"),
    ("examples:\n  a: {responseSchema: {body: {gen: {kind: ¶uid}}}}", "did you mean uuid?"),
    ("examples:\n  a: {responseSchema: {body: {gen: {knd: ¶uuid}}}}", "did you mean kind?"),
    ("examples:\n  a: {responseSchema: {body: {gen: {kind: string, lenght: ¶4}}}}", "did you mean length?"),
    ("examples:\n  a: {responseSchema: {body: {gen: ¶uuid}}}", "write gen: {kind: uuid}"),
    ("examples:\n  a: {responseSchema: {body: {gen: ¶{kind: pick}}}}", "requires options"),
    ("examples:\n  a: {responseSchema: {body: {gen: ¶{kind: int, min: 5, max: 1}}}}", "gen.min is larger"),
    ("examples:\n  a: {responseSchema: {body: {resolve: {path: request.path.id, fallbak: ¶x}}}}", "did you mean fallback?"),
    ("examples:\n  a: {responseSchema: {body: {resolve: ¶request.body.id}}}", "write resolve: {path: request.body.id}"),
    ("examples:\n  a: {responseSchema: {body: {compose: [{gne: ¶{kind: uuid}}]}}}", "did you mean gen?"),
    ("examples:\n  a: {responseSchema: {headers: [{name: x, typ: ¶string}]}}", "did you mean type?"),
    # faults, delays and callbacks
    ("examples:\n  a: {response: {fault: ¶rset}}", "did you mean reset?"),
    ("examples:\n  a: {response: {fault: ¶CONNECTION_RESET_BY_PEER}}", "write reset"),
    ("examples:\n  a: {response: {fault: {drible: ¶{}}}}", "did you mean dribble?"),
    ("examples:\n  a: {response: {fault: {dribble: {chunk: ¶5, over: 1s}}}}", "did you mean chunks?"),
    ("examples:\n  a: {response: {fault: {dribble: {chunks: ¶0, over: 1s}}}}", "chunks must be an integer from 1"),
    ("examples:\n  a: {response: {delay: ¶100}}", "delay needs a unit"),
    ("examples:\n  a: {response: {delay: ¶soon}}", "soon"),
    ("examples:\n  a: {response: {delay: {unifrom: ¶[1s, 2s]}}}", "did you mean uniform?"),
    ("examples:\n  a: {response: {delay: {uniform: ¶[2s, 1s]}}}", "[lowest, highest]"),
    ("examples:\n  a: {response: {delay: {lognormal: {medain: ¶1s, sigma: 1}}}}", "did you mean median?"),
    ("examples:\n  a: {response: {delayMillis: ¶1m}}", "delayMillis must be an integer"),
    ("examples:\n  a: {response: {delay: ¶1s, delayMillis: 5}}", "one of delayMillis and delay"),
    ("examples:\n  a: {callbacks: [{ulr: ¶'http://a/'}]}", "did you mean url?"),
    ("examples:\n  a: {callbacks: [{url: ¶'ftp://a/'}]}", "begins with http:// or https://"),
    ("examples:\n  a: {callbacks: [{url: 'http://a/', methd: ¶PUT}]}", "did you mean method?"),
    ("examples:\n  a: {callbacks: [{url: 'http://a/', method: ¶PSOT}]}", "did you mean POST?"),
    ("examples:\n  a: {callbacks: [{url: 'http://a/', boddy: ¶x}]}", "did you mean body?"),
    ("examples:\n  a: {callbacks: [{url: 'http://a/', delay: ¶5}]}", "delay needs a unit"),
    ("examples:\n  a: {callbacks: [{url: 'http://a/', headers: ¶x}]}", "headers must be a mapping"),
    ("examples:\n  a: {callbacks: [{url: 'http://a/', body: ¶'{{respnse.body}}'}]}", "respnse"),
    ("examples:\n  a: {callbacks: ¶soon}", "a callback is a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), MISTAKES)
def test_a_mistake_in_an_example_file_is_named_with_its_place(text, says):
    at_mark, every = told("mock/s/op.yaml", text, FILES)

    assert any(says in detail for detail in at_mark), every or "silent"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("examples: {", ""),
        ("examples:\n\ta: {}", ""),
        ("examples: {a: {}}\nexamples: {b: {}}", "examples"),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_its_line(text, says):
    _, every = told("mock/s/op.yaml", text, FILES)

    assert every.startswith("mock/s/op.yaml:")
    assert says in every


def test_a_misspelled_file_without_metadata_is_named():
    at_mark, every = told("mock/s/op.yaml", "exampels: ¶{a: {}}", {})

    assert any("did you mean examples?" in detail for detail in at_mark), every or "silent"


def test_of_many_unknown_keys_few_are_compared_with_the_known_ones(monkeypatch):
    """Each comparison takes time: 20 are told of a file, and of a mapping 200 are looked at."""
    compared: list[str] = []

    def compare(name: str, *_: object) -> list[str]:
        compared.append(name)
        return []

    monkeypatch.setattr(forms, "get_close_matches", compare)
    notes = FileNotes("op.yaml")

    read_record(ExampleFile, tree_of({f"exampel{n}": {} for n in range(1_000)}), notes)
    read_record(ExampleKeys, tree_of({f"respons{n}": {} for n in range(1_000)}), notes)

    assert len(compared) == 200
    assert len(notes.warnings.list_warnings()) == 20
