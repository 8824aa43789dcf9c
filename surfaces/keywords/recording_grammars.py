"""The keywords of Postman collections, HAR, mappings of WireMock and documents of Microcks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readers.diagnostics import nearest_advice, nearest_name
from readers.tree import Tree
from surfaces.keywords.grammar import Grammar, read_grammar
from surfaces.keywords.walk import KeywordProblem, document_problems
from surfaces.trees import NOTHING

_POSTMAN: Final = read_grammar("""
document: info=info! item=[item]! event variable=[pair] auth protocolProfileBehavior
envelope: collection=document!
info: name _postman_id description version schema _exporter_id _collection_link
item: id uid name=text description variable event request=text/request response=[response]
    item=[item] auth protocolProfileBehavior createdAt updatedAt
request: url=text/url/null auth proxy certificate method=text description header=text/[pair]/null
    body=body/null
url: raw=text protocol host path=text/[text/mapping] port query=[pair] hash variable=[pair]
body: mode=raw|urlencoded|formdata|file|graphql raw=text graphql urlencoded=[pair]/text
    formdata=[pair]/text file options disabled
pair: id key value disabled=flag/null description type name enabled src contentType fileName uuid
    warning schema system equals
response: id uid name originalRequest=request/text/null responseTime timings
    header=[pair/text]/text/null cookie body=text/null status=text/null code=count/null
    _postman_previewlanguage _postman_previewtype previewlanguage createdAt updatedAt
""", free=("x-", "_"))  # fmt: skip
_POSTMAN_1: Final = read_grammar("""
document: id name description order folders folders_order requests=[request]! timestamp owner
    remoteLink public variables=[mapping] events auth createdAt updatedAt published shared
    hasRequests collections sharedWithTeam team lastUpdatedBy remote_id write
request: id name=text url=text method=text description descriptionFormat headers=text/null
    headerData=[mapping]/null pathVariables pathVariableData queryParams time version
    responses=[response] data=[mapping]/text/null rawModeData dataOptions dataDisabled
    dataMode=raw|urlencoded|params|binary|graphql/null graphqlModeData preRequestScript tests
    currentHelper helperAttributes
    collectionId folder collection isFromCollection owner auth events variables createdAt
    updatedAt responses_order collection_id timestamp lastUpdatedBy protocolProfileBehavior
response: id name status=text/null responseCode=code/count time headers=[mapping] cookies mime
    text=text/null language rawDataType request=request/text/null previewType requestObject
    rawRequest searchResultScore owner collectionRequestId createdAt updatedAt write isSample
    responseRawDataType state scrollPercentage fromHistory
code: code=count! name detail
""", free=("x-", "_"))  # fmt: skip
_HAR: Final = read_grammar("""
document: log=log!
log: version creator browser pages entries=[entry]! comment
entry: pageref startedDateTime time request=request! response=response! cache timings
    serverIPAddress connection comment
message: httpVersion cookies headers=[header] headersSize bodySize comment
request: +message method=text! url=text! queryString=[header] postData=post-data/null
response: +message status=number! statusText content=content! redirectURL
header: name=text! value=text! comment
content: size compression mimeType=text text=text encoding=text comment
post-data: mimeType=text params=[param] text=text encoding comment
param: name=text! value fileName contentType comment
""", free=("_",))  # fmt: skip
_MATCHERS: Final = """equalTo binaryEqualTo contains doesNotContain matches doesNotMatch absent=flag
    caseInsensitive=flag before after equalToDateTime equalToJson equalToXml matchesJsonPath
    matchesJsonSchema matchesXPath and or not hasExactly includes equalToNumber greaterThanNumber
    lessThanNumber greaterThanEqualNumber lessThanEqualNumber truncateExpected truncateActual
    actualFormat schemaVersion"""
_WIREMOCK: Final = read_grammar(f"""
document: mappings=[mapping]! meta importOptions
mapping: id=text uuid=text name=text request=request! response=response newResponse=response
    priority=count persistent=flag metadata scenarioName=text requiredScenarioState=text
    newScenarioState=text insertionIndex serveEventListeners postServeActions
request: url=text urlPath=text urlPathTemplate=text urlPathPattern=pattern urlPattern=pattern
    method=text/matcher pathParameters={{matcher}} queryParameters={{matcher}} cookies={{matcher}}
    headers={{matcher}} formParameters={{matcher}} bodyPatterns=[body-pattern] multipartPatterns
    basicAuthCredentials basicAuth host=matcher port=count scheme=text clientIp=matcher
    customMatcher
matcher: {_MATCHERS}
body-pattern: {_MATCHERS} ignoreArrayOrder=flag ignoreExtraElements=flag xPathNamespaces
    enablePlaceholders=flag placeholderOpeningDelimiterRegex placeholderClosingDelimiterRegex
    exemptedComparisons namespaceAwareness
response: status=count statusMessage headers body=text/null jsonBody base64Body=text
    bodyFileName=text proxyBaseUrl=text additionalProxyRequestHeaders removeProxyRequestHeaders
    proxyUrlPrefixToRemove transformers=[text] transformerParameters
    fault=CONNECTION_RESET_BY_PEER|EMPTY_RESPONSE|MALFORMED_RESPONSE_CHUNK|RANDOM_DATA_THEN_CLOSE
    fixedDelayMilliseconds=count delayDistribution=distribution chunkedDribbleDelay=dribble
    fromConfiguredStub
distribution: type=uniform|lognormal|fixed! lower=number upper=number median=number sigma=number
    milliseconds=number maxValue=number
dribble: numberOfChunks=count! totalDuration=count!
""")  # fmt: skip
_MICROCKS: Final = read_grammar("""
document: apiVersion=text kind=APIExamples|APIMetadata metadata=metadata!
    operations={{example}}!
api-metadata: apiVersion=text kind=APIExamples|APIMetadata metadata=metadata!
    operations={operation}!
metadata: name=text! version=text/number! labels annotations
example: request=request response=response eventMessage=response
request: headers parameters=mapping body queries
response: headers mediaType=text status=text/number code=text/number body payload
operation: delay=number delayStrategy dispatcher=text dispatcherRules
    parameterConstraints=[constraint]
constraint: name=text! in=path|query|header required=flag recopy=flag mustMatchRegexp=pattern/null
""")  # fmt: skip
# The members that tell what a file is, by format.
_SIGNS: Final = (
    *("openapi", "swagger", "asyncapi", "log", "entries", "info", "item", "requests", "collection"),
    *(
        "mappings",
        "request",
        "response",
        "newResponse",
        "apiVersion",
        "kind",
        "operations",
        "schema",
    ),
)
_KINDS: Final = ("APIExamples", "APIMetadata")
_ORDINARY: Final = ("version", "metadata", "name", "id", "description")  # of any format
_LIKE: Final = 0.7


def recording_problems(format_name: str, document: Tree) -> Iterator[KeywordProblem]:
    """Yield what is wrong in a document of Postman, HAR, WireMock or Microcks."""
    grammar, kind = _grammar(format_name, document.pairs)
    return document_problems(grammar, document, lambda _reference, _file: None, kind=kind)


def _grammar(format_name: str, members: Mapping[str, Tree]) -> tuple[Grammar, str]:
    """Return the grammar of a document, and of what kind it is."""
    if format_name == "Postman":
        inner = members["collection"].pairs if "collection" in members else members
        grammar = _POSTMAN if "item" in inner else _POSTMAN_1
        return grammar, "envelope" if inner is not members else "document"
    if format_name == "WireMock":
        return _WIREMOCK, "document" if "mappings" in members else "mapping"
    if format_name == "Microcks":
        is_metadata = "kind" in members and members["kind"].text == "APIMetadata"
        return _MICROCKS, "api-metadata" if is_metadata else "document"
    return _HAR, "document"


def unknown_format_advice(document: Tree) -> tuple[str, Tree | None]:
    """Return `; did you mean X?` for a member that would tell the format, and the member."""
    version, kind = (document.pairs.get(each, NOTHING) for each in ("apiVersion", "kind"))
    if version.text and not version.text.startswith("mocks.microcks.io/"):
        return "; the apiVersion of Microcks begins with mocks.microcks.io/", version
    if version.text and kind.text and kind.text not in _KINDS:
        return f'; the kind "{kind.text[:80]}": {nearest_advice(kind.text, _KINDS)}', kind
    for owner in (document, *document.pairs.values()):
        for key, value in owner.pairs.items():
            near = "" if key in (*_SIGNS, *_ORDINARY) else nearest_name(key, _SIGNS, least=_LIKE)
            if near and near not in owner.pairs:
                return f'; it has "{key[:80]}": did you mean {near}?', value
    return "", None
