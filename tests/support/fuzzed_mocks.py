"""A suite whose mocks use everything at once, and calls of it: right ones, changed ones, garbage.

Nothing in it depends on the time, so that two planes which draw alike must answer alike.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from mocks.model.ports import SpaceContent
from surfaces import surfaces_of
from tests.support.raw_calls import RawCall

OPENAPI: Final = """
openapi: 3.0.3
info: {title: Shop, version: "1"}
components:
  securitySchemes:
    token: {type: http, scheme: bearer}
    key: {type: apiKey, in: header, name: X-Key}
  schemas:
    Item:
      type: object
      required: [id, name]
      additionalProperties: false
      properties:
        id: {type: integer, minimum: 1, maximum: 1000000}
        name: {type: string, minLength: 1, maxLength: 40, pattern: "^[A-Za-z ]+$"}
        made: {type: string, format: date-time}
        owner: {type: string, format: email}
        state: {type: string, readOnly: true}
        tags: {type: array, uniqueItems: true, maxItems: 50, items: {type: string}}
        size: {type: number, multipleOf: 0.5}
        callbackUrl: {type: string}
        part: {$ref: "#/components/schemas/Item"}
        kind:
          oneOf: [{$ref: "#/components/schemas/Cat"}, {$ref: "#/components/schemas/Dog"}]
          discriminator: {propertyName: is}
    Cat: {type: object, required: [is], properties: {is: {enum: [Cat]}, lives: {type: integer}}}
    Dog: {type: object, required: [is], properties: {is: {enum: [Dog]}, bark: {type: boolean}}}
paths:
  /items:
    parameters: [{name: X-Trace, in: header, schema: {type: string, pattern: "^[a-f0-9]{4,8}$"}}]
    get:
      operationId: listItems
      parameters:
        - {name: limit, in: query, schema: {type: integer, minimum: 1, maximum: 100}}
        - {name: kind, in: query, required: true, schema: {type: string, enum: [a, b]}}
        - {name: ids, in: query, explode: false, schema: {type: array, items: {type: integer}}}
        - name: filter
          in: query
          style: deepObject
          schema: {type: object, properties: {a: {type: boolean}, b: {type: array, items: {}}}}
        - {name: session, in: cookie, schema: {type: string, maxLength: 8}}
      responses:
        "200":
          description: ok
          content:
            application/json: {examples: {some: {value: [{id: 1}]}, none: {value: []}}}
            application/xml: {examples: {some: {value: "<items/>"}}}
        "404": {description: none, content: {application/json: {example: {gone: true}}}}
    post:
      operationId: addItem
      security: [{token: []}, {key: []}]
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: "#/components/schemas/Item"}}
          application/x-www-form-urlencoded:
            schema: {type: object, required: [id], properties: {id: {type: integer}}}
          multipart/form-data:
            schema: {type: object, properties: {id: {type: integer}, file: {type: string}}}
      responses: {"201": {description: ok}, "422": {description: wrong}}
  /items/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get: {operationId: getItem, responses: {"200": {description: ok}}}
    delete: {operationId: dropItem, responses: {"204": {description: ok}}}
    patch:
      operationId: changeItem
      requestBody: {content: {application/merge-patch+json: {schema: {type: object}}}}
      responses: {"200": {description: ok}}
  /limited: {get: {operationId: limited, responses: {"200": {description: ok}}}}
  /orders:
    post:
      operationId: order
      requestBody: {content: {application/xml: {schema: {type: object}}}}
      responses: {"200": {description: ok}}
  /turns: {get: {operationId: turns, responses: {"200": {description: ok}}}}
  /draws: {get: {operationId: draws, responses: {"200": {description: ok}}}}
  /made: {get: {operationId: made, responses: {"200": {description: ok}}}}
  /down: {get: {operationId: down, responses: {"503": {description: down}}}}
  /broken: {get: {operationId: broken, responses: {"200": {description: ok}}}}
  /plain: {get: {operationId: plain, responses: {"200": {description: ok}}}}
  /passed: {post: {operationId: passed, responses: {"200": {description: ok}}}}
"""
LIMIT: Final = 100
MOCKS: Final = {
    "listItems": "spec: {}",
    "addItem": """
spec:
  parameterConstraints: [{name: x-tenant, source: header, pattern: "^[a-z]+$", forward: true}]
  state:
    mutationKeyTemplate: "item-{{request.body.id}}"
    defaults: {n: "0"}
    transitions:
      - {onExample: paid, set: {name: "{{upper(request.body.name)}}"}, increment: {n: 1}}
      - {onExample: dropped, delete: ["*"]}
      - {increment: {n: 2}}
examples:
  paid:
    when:
      - {from: body, jsonPath: "$.tags[?@ == 'paid']", absent: false}
      - {from: body, param: size, gt: 1}
    response: {status: "201", body: {n: "{{state.n}}", count: "{{counter('paid')}}"}}
    callbacks:
      - {url: "{{request.body.callbackUrl}}", body: {id: "{{request.body.id}}"}}
      - {url: "http://169.254.169.254/latest", delay: 1ms}
  dropped: {when: [{from: body, param: name, matches: "^drop"}], response: {status: "204"}}
  other:
    response:
      status: "201"
      headers: {X-Name: "{{request.body.name}}", Location: "/items/{{request.body.id}}"}
      body: {name: "{{lower(request.body.name)}}", size: "{{math(request.body.size, '*', 2)}}",
             tags: "{{jsonPath(request.body, '$.tags')}}", all: "{{request.body}}"}
""",
    "getItem": """
spec: {state: {lookupKeyTemplate: "item-{{request.path.id}}", defaults: {n: "0"}}}
examples:
  many: {when: [{from: state, param: n, gte: 3}], response: {body: {many: "{{state}}"}}}
  few: {response: {body: {n: "{{state.n}}", name: "{{state.name || 'nobody'}}"}}}
""",
    "dropItem": """
spec: {state: {mutationKeyTemplate: "item-{{request.path.id}}", transitions: [{delete: ["*"]}]}}
examples: {gone: {response: {status: "204"}}}
""",
    "changeItem": """
spec:
  state:
    mutationKeyTemplate: "item-{{request.path.id}}"
    transitions: [{set: {last: "{{request.rawBody}}"}}]
examples:
  typed:
    requestSchema: {body: {type: object, properties: {n: {type: integer}}}}
    responseSchema:
      body: {type: object, properties: {n: {type: integer, resolve: {path: request.body.n}},
             u: {type: string, gen: {kind: uuid}}, t: {type: string, template: "{{state.last}}"}}}
""",
    "limited": f"""
spec: {{rateLimit: {{calls: {LIMIT}, per: 1h}}}}
examples: {{in: {{response: {{body: in}}}}}}
""",
    "order": """
examples:
  rush:
    when: [{from: body, xpath: "//order[@rush='yes']", absent: false}]
    response: {body: "<rush>{{xPath(request.body, '//id')}}</rush>", mediaType: application/xml}
  usual: {when: [{from: body, xpath: "//id", not: {matches: "^x"}}], response: {body: <usual/>}}
""",
    "turns": """
spec: {dispatcher: sequence}
examples: {a: {response: {body: a}}, b: {response: {body: b}}, c: {response: {body: c}}}
""",
    "draws": """
spec: {dispatcher: random, dispatcherRules: "a=3; b=1"}
examples: {a: {response: {body: a}}, b: {response: {body: b}}}
""",
    "made": """
examples:
  made:
    response:
      body:
        id: "{{uuid()}}"
        n: "{{randomInt(1, 1000)}}"
        one: "{{pick('a', 'b', 'c')}}"
        text: "{{randomValue(12, 'HEXADECIMAL')}} {{base64(request.query.q)}}"
""",
    "down": "examples: {down: {response: {status: '503', body: {down: true}}}}",
    "broken": """
examples:
  reset: {when: [{from: query, param: f, value: reset}], response: {body: x, fault: reset}}
  empty: {when: [{from: query, param: f, value: empty}], response: {body: x, fault: empty}}
  half: {when: [{from: query, param: f, value: half}], response: {body: "0123", fault: half}}
  garbage: {when: [{from: query, param: f, value: garbage}], response: {fault: garbage}}
  slow:
    when: [{from: query, param: f, value: slow}]
    response: {body: "0123456789", fault: {dribble: {chunks: 4, over: 2ms}}}
  fine: {response: {body: fine, delay: {uniform: [0ms, 1ms]}}}
""",
    "plain": "examples: {plain: {response: {body: {plain: true}}}}",
    "passed": """
spec: {fallback: {mode: proxy, proxyUrl: "http://127.0.0.1:9/"}}
examples: {never: {when: [{from: query, param: never, value: never}], response: {body: a}}}
""",
}
SDL: Final = """
type Query { film(id: ID!): Film  films(first: Int): [Film!]!  down: Int }
type Film { id: ID! name: String! year: Int director: Person! tags: [String!]! }
type Person { name: String! born: Int }
"""
FILM: Final = """
examples:
  one:
    when: [{from: body, param: arguments.id, value: "1"}]
    response: {body: {data: {film: {id: "1", name: Alien, year: 1979}}}}
  other: {response: {body: {data: {film: {id: "{{request.body.arguments.id}}", name: Other}}}}}
"""
WSDL: Final = """<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" name="Zoo"
 targetNamespace="urn:z"><portType name="Zoo"><operation name="GetPet"/><operation name="AddPet"/>
</portType></definitions>"""
ADD_PET: Final = """
examples:
  full: {when: [{from: body, xpath: //name, value: Rex}], response: {status: "500", body: <Fault/>}}
  added: {response: {body: "<added>{{xPath(request.body, '//name')}}</added>"}}
"""
PROTO: Final = """syntax = "proto3"; package pay;
message Order { string id = 1; int32 n = 2; } message Receipt { string state = 1; }
service Payments { rpc Capture(Order) returns (Receipt); }"""
SPACE: Final = "fuzz"
BASE: Final = b"/mocks/rest/fuzz"


def files() -> dict[str, bytes]:
    texts = {
        "api/shop.openapi.yaml": OPENAPI,
        "api/films.graphql": SDL,
        "api/zoo.wsdl": WSDL,
        "api/pay.proto": PROTO,
        "mock/films/film.yaml": FILM,
        "mock/films/down.yaml": "examples: {a: {response: {status: '503', body: down}}}",
        "mock/zoo/GetPet.yaml": 'examples: {a: {response: {body: "<got/>"}}}',
        "mock/zoo/AddPet.yaml": ADD_PET,
        "mock/pay/Capture.yaml": "examples: {paid: {response: {body: {state: PAID}}}}",
    }
    for name, text in MOCKS.items():
        spec, found, examples = text.partition("examples:")
        if spec.strip():
            texts[f"mock/shop/{name}.metadata.yaml"] = spec
        if found:
            texts[f"mock/shop/{name}.yaml"] = found + examples
    return {path: text.encode() for path, text in texts.items()}


def content() -> SpaceContent:
    """Return the suite; fail unless it is read without a warning."""
    named = files()
    surfaces, warnings = surfaces_of(named, suite_id=SPACE, base_url="http://mocks.test")
    assert not warnings, [each.detail for each in warnings]
    return SpaceContent(
        suite_id=SPACE, title="", repository="", generation="1", surfaces=surfaces, files=named
    )


JSON: Final = (b"content-type", b"application/json")
XML: Final = (b"content-type", b"application/xml")
ODD: Final = (
    b"", b"\0", b"\xff\xfe\x80", b"%", b"%zz", b"%00", b"%2e%2e/", b"{{state}}", b"$..*",
    b"'\"<>&", b"NaN", b"1e999", b"-0", b"9" * 400, b"null", b"true", b"[]", b"{}", b"[[[[",
    b"a" * 3_000, "ü€𝄞".encode(), b"\\ud800", b"a,b;c|d=e&f", b"x\ty",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
)  # fmt: skip
ODD_HEADERS: Final = (
    b"accept", b"accept-charset", b"prefer", b"authorization", b"cookie", b"content-type",
    b"origin", b"x-key", b"x-trace", b"x-tenant", b"soapaction", b"content-encoding", b"range",
    b"host", b"x-partita-mock-tag", b"expect", b"via", b"if-none-match", b"x-forwarded-host",
)  # fmt: skip


class FuzzedCalls:
    """Draws calls by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._right: tuple[Callable[[], RawCall], ...] = (
            self._list_items, self._add_item, self._add_item, self._item, self._order, self._film,
            self._pet, self._broken, self._simple, self._other_adapters,
        )  # fmt: skip

    def calls(self, count: int) -> Iterator[RawCall]:
        """Yield calls: two in five are right, two in five are changed, one in five is garbage."""
        for number in range(count):
            kind = self.draw.random()
            made = self._garbage() if kind > 0.8 else self.draw.choice(self._right)()
            if 0.4 < kind < 0.8:
                for _ in range(self.draw.randrange(1, 4)):
                    made = self._change(made)
            request_id = (b"x-request-id", b"fuzz-%d" % number)
            yield replace(made, headers=[*made.headers, request_id])

    def _json(self) -> bytes:
        pick = self.draw.choice
        item: dict[str, Any] = {"id": self.draw.randrange(1, 60), "name": pick(["Pen", "drop it"])}
        item["tags"] = self.draw.sample(["paid", "new", "old"], self.draw.randrange(4))
        item["size"] = pick([0.5, 2, 7.5])
        if self.draw.random() < 0.3:
            item["part"] = {"id": 1, "name": "Cap"}
            item["kind"] = pick([{"is": "Cat", "lives": 7}, {"is": "Dog", "bark": True}])
            item["made"] = "2026-01-02T03:04:05Z"
            urls = ["http://127.0.0.1:1/", "http://[::1]/", "file:///etc/passwd", "x", ""]
            item["callbackUrl"] = pick(urls)
        return json.dumps(item).encode()

    def _list_items(self) -> RawCall:
        query = b"kind=" + self.draw.choice([b"a", b"b"])
        extra = (b"&limit=7", b"&ids=1,2,3", b"&filter[a]=true&filter[b]=1", b"&__example=none")
        query += b"".join(each for each in extra if self.draw.random() < 0.4)
        wanted = (b"application/json", b"application/xml;q=0.9, */*;q=0.1", b"text/plain", b"*/*")
        headers = [(b"accept", self.draw.choice(wanted)), (b"x-trace", b"beef")]
        if self.draw.random() < 0.3:
            headers += [(b"prefer", self.draw.choice([b"code=404", b"dynamic=true", b"code=599"]))]
        method = self.draw.choice(["GET", "GET", "GET", "HEAD", "OPTIONS"])
        return RawCall(method, BASE + b"/shop/items", query, headers)

    def _add_item(self) -> RawCall:
        signed = [(b"authorization", b"Bearer abc")], [(b"x-key", b"k")]
        headers = [*self.draw.choice(signed), (b"x-tenant", b"acme")]
        form = self.draw.random()
        if form < 0.1:
            body, kind = b"id=7&name=x", b"application/x-www-form-urlencoded"
        elif form < 0.2:
            body = b'--b\r\nContent-Disposition: form-data; name="id"\r\n\r\n7\r\n--b--\r\n'
            kind = b"multipart/form-data; boundary=b"
        else:
            body, kind = self._json(), b"application/json"
        return RawCall("POST", BASE + b"/shop/items", b"", [*headers, (JSON[0], kind)], [body])

    def _item(self) -> RawCall:
        path = BASE + b"/shop/items/%d" % self.draw.randrange(1, 60)
        method = self.draw.choice(["GET", "GET", "DELETE", "PATCH"])
        if method != "PATCH":
            return RawCall(method, path)
        headers = [(b"content-type", b"application/merge-patch+json")]
        return RawCall(method, path, b"", headers, [b'{"n": %d}' % self.draw.randrange(99)])

    def _order(self) -> RawCall:
        rush, number = self.draw.choice([b"yes", b"no"]), self.draw.choice([b"1", b"x1"])
        body = b'<order rush="%b"><id>%b</id></order>' % (rush, number)
        return RawCall("POST", BASE + b"/shop/orders", b"", [XML], [body])

    def _film(self) -> RawCall:
        queries = (
            '{film(id: "1") {id name director {name}}}', "{a: films(first: 2) {tags} __typename}",
            "query Q($i: ID!) {film(id: $i) {...F}} fragment F on Film {name year}", "{down}",
            "{film {id}}", "{__schema {types {name}}}", "{film(id: 1) {film}}",
        )  # fmt: skip
        text, variables = self.draw.choice(queries), {"i": self.draw.choice(["1", 2, None])}
        if self.draw.random() < 0.2:
            return RawCall("GET", BASE + b"/films/graphql", b"query=" + quote(text).encode())
        body = json.dumps({"query": text, "variables": variables}).encode()
        return RawCall("POST", BASE + b"/films/graphql", b"", [JSON], [body])

    def _pet(self) -> RawCall:
        below = self.draw.choice([b"<GetPet/>", b"<AddPet><name>Tom</name></AddPet>",
                                  b"<AddPet><name>Rex</name></AddPet>", b"<FeedPet/>"])  # fmt: skip
        body = b'<s:Envelope xmlns:s="urn:s"><s:Body>%b</s:Body></s:Envelope>' % below
        return RawCall("POST", BASE + b"/zoo/", b"", [(b"content-type", b"text/xml")], [body])

    def _broken(self) -> RawCall:
        fault = self.draw.choice([b"reset", b"empty", b"half", b"garbage", b"slow", b"none"])
        return RawCall("GET", BASE + b"/shop/broken", b"f=" + fault)

    def _simple(self) -> RawCall:
        names = [b"limited", b"turns", b"draws", b"made", b"down", b"plain", b"plain", b"passed"]
        name = self.draw.choice(names)
        return RawCall("POST" if name == b"passed" else "GET", BASE + b"/shop/" + name, b"q=1")

    def _other_adapters(self) -> RawCall:
        path = self.draw.choice(
            [b"/mocks/grpc/fuzz/pay/Capture", b"/internal/mock-data/fuzz/shop/addItem",
             b"/internal/mock-data/fuzz/films/film", b"/internal/mock-data/fuzz/zoo/AddPet",
             b"/mocks/grpc/fuzz/pay/None"]
        )  # fmt: skip
        return RawCall("POST", path, b"", [JSON], [b'{"id": "1", "n": 3}'])

    def _garbage(self) -> RawCall:
        odd = self.draw.choice
        path = odd([BASE, b"/mocks", b"/internal/mock-data/fuzz", b"/mocks/grpc/fuzz"])
        for _ in range(self.draw.randrange(1, 5)):
            below = odd([*ODD, b"shop", b"items", b"films", b"zoo"])
            path += b"/" + below[:400].replace(b"\0", b"%00").replace(b" ", b"%20")
        headers = [(odd(ODD_HEADERS), odd(ODD)) for _ in range(self.draw.randrange(4))]
        method = odd(["GET", "POST", "PUT", "HEAD", "OPTIONS", "TRACE", "x"])
        return RawCall(method, path, odd(ODD), headers, [odd(ODD) * self.draw.randrange(1, 3)])

    def _change(self, made: RawCall) -> RawCall:
        changes = (self._change_body, self._change_query, self._change_headers, self._change_target)
        return self.draw.choice(changes)(made)

    def _change_body(self, made: RawCall) -> RawCall:
        body, odd = b"".join(made.chunks), self.draw.choice(ODD)
        at = self.draw.randrange(len(body) + 1)
        changed = (
            body[:at], body[:at] + odd + body[at:], odd, body + body, body[at:],
            body.replace(b"1", odd), body.replace(b'"', b"'"), b'{"a":' * 60 + b"1" + b"}" * 60,
            b"[" + b"0," * 2_000 + b"0]", self.draw.randbytes(40), self._json(),
        )  # fmt: skip
        return replace(made, chunks=[self.draw.choice(changed)])

    def _change_query(self, made: RawCall) -> RawCall:
        odd = self.draw.choice(ODD)
        names = [b"limit", b"kind", b"ids", b"filter[a]", b"f", b"__code", b"__example", b"query"]
        more = self.draw.choice(names) + b"=" + odd
        changed = (b"", odd, made.query + b"&" + more, more, made.query + b"&" + made.query)
        return replace(made, query=self.draw.choice(changed))

    def _change_headers(self, made: RawCall) -> RawCall:
        added = (self.draw.choice(ODD_HEADERS), self.draw.choice(ODD))
        if self.draw.random() < 0.5 and made.headers:
            left = list(made.headers)
            left.pop(self.draw.randrange(len(left)))
            return replace(made, headers=left)
        return replace(made, headers=[*made.headers, added])

    def _change_target(self, made: RawCall) -> RawCall:
        odd = self.draw.choice(ODD)[:400].replace(b"\0", b"%00").replace(b" ", b"%20")
        parts = made.raw_path.split(b"/")
        parts[self.draw.randrange(1, len(parts))] = odd
        if self.draw.random() < 0.5:
            return replace(made, raw_path=b"/".join(parts))
        return replace(made, method=self.draw.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "x"]))
