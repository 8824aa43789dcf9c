"""OpenAPI schemas of the suite routes, whose bodies come from `domain.definition`.

An optional key is absent, never null.
"""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema_serializer
from rest_framework import serializers

from apps.http.rest import StrictSerializer
from apps.suites.domain.definition import EVALUATED, EVALUATING

Text = serializers.CharField
Number = serializers.IntegerField
Flag = serializers.BooleanField


class Shape(serializers.Serializer[Any]):
    """The shape of an answer."""


class Fault(Shape):
    """Why a topology does not resolve; `line` and `column` count from 1."""

    code = Text()
    message = Text()
    file = Text(required=False)
    line = Number(required=False)
    column = Number(required=False)
    sourceLine = Text(required=False)


class SuiteWarning(Shape):
    code = Text()
    detail = Text()
    file = Text(required=False)
    line = Number(required=False)
    column = Number(required=False)


class SuiteProfile(Shape):
    fileName = Text()
    label = Text()  # type: ignore[assignment]
    description = Text(allow_blank=True)
    default = Flag()


class Folder(Shape):
    name = Text()
    role = Text()
    files = serializers.ListField(child=Text())


class SourceFile(Shape):
    path = Text()
    language = Text()
    size = Number(min_value=0)
    content = Text(required=False, allow_blank=True, help_text="not in lists")


class Node(Shape):
    """A step as resolved; further keys depend on `kind`: image, file, command, ready, env."""

    id = Text()
    name = Text()
    kind = Text()
    variant = Text()
    level = Number(min_value=0)
    dependsOn = serializers.ListField(child=Text())
    after = serializers.ListField(child=Text())
    onFailure = serializers.ListField(child=Text())
    continueOnFailure = Flag()
    idempotent = Flag()
    retries = Number(min_value=0)
    timeoutMs = Number(min_value=1)


class Dependency(Shape):
    """An imported suite; `locked` when dependencies.lock.yaml has an entry for it."""

    alias = Text()
    ref = Text()
    version = Text(required=False)
    resolved = Text()
    digest = Text(required=False)
    profile = Text(required=False)
    inputs = serializers.DictField(child=Text(allow_blank=True), required=False)
    suiteId = Text()
    suiteTitle = Text()
    repository = Text()
    locked = Flag()


def texts() -> serializers.DictField:
    return serializers.DictField(child=Text(allow_blank=True))


class Condition(Shape):
    """A part of `when`; all must hold."""

    param = Text()
    value = Text(allow_blank=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        sources = ["path", "query", "header", "body", "state"]
        return {"from": serializers.ChoiceField(choices=sources), **super().get_fields()}


class Exchange(Shape):
    """An example; bodies and headers of schemas are a deterministic sample."""

    name = Text()
    sourceArtifact = Text()
    when = Condition(many=True)
    requestHeaders = texts()
    requestBody = Text(required=False)
    responseStatus = Text()
    responseMediaType = Text(required=False)
    responseHeaders = texts()
    responseBody = Text(required=False)


class ParameterConstraint(Shape):
    name = Text()
    source = serializers.ChoiceField(choices=["path", "query", "header", "body"])  # type: ignore[assignment]
    required = Flag()  # type: ignore[assignment]
    forward = Flag()
    pattern = Text(required=False)


class Fallback(Shape):
    mode = serializers.ChoiceField(choices=["static", "example", "proxy"])
    exampleName = Text(required=False)
    proxyUrl = Text(required=False)
    status = Text(required=False)
    mediaType = Text(required=False)
    body = Text(required=False)
    headers = serializers.DictField(child=Text(allow_blank=True), required=False)


class Transition(Shape):
    onExample = Text(required=False)
    mutationKeyTemplate = Text(required=False)
    set = texts()
    delete = serializers.ListField(child=Text(allow_blank=True))
    increment = serializers.DictField(child=Number())


class MockState(Shape):
    lookupKeyTemplate = Text(required=False)
    mutationKeyTemplate = Text(required=False)
    defaults = texts()
    transitions = Transition(many=True)


class MockMetadata(Shape):
    """How an operation is simulated; `problems` are why it would answer 500."""

    adapter = serializers.ChoiceField(choices=["rest", "grpc", "async"])
    dispatcher = serializers.ChoiceField(choices=["example", "script", "sequence", "random"])
    dispatcherRules = Text(required=False)
    delayMillis = Number(min_value=0)
    parameterConstraints = ParameterConstraint(many=True)
    fallback = Fallback(required=False)
    state = MockState(required=False)
    metadataPath = Text(required=False)
    resolverUrl = Text()
    runtimeUrl = Text()
    problems = serializers.ListField(child=Text())


class Operation(Shape):
    id = Text()
    method = Text()
    name = Text()
    summary = Text(allow_blank=True)
    streaming = serializers.ChoiceField(choices=["client", "server", "both"], required=False)
    contractPath = Text(required=False)
    mockPath = Text(required=False)
    mockUrl = Text()
    curlCommand = Text()
    dispatcher = serializers.ChoiceField(choices=["example", "script", "sequence", "random"])
    mockMetadata = MockMetadata()
    exchanges = Exchange(many=True)


class ApiSurface(Shape):
    """Operations of one contract or of one folder of mocks."""

    id = Text()
    title = Text()
    protocol = Text()
    mockHost = Text()
    description = Text(allow_blank=True)
    operations = Operation(many=True)


class Definition(Shape):
    id = Text()
    title = Text()
    repository = Text()
    owner = Text()
    provider = Text()
    version = Text()
    labels = serializers.DictField(child=Text(), required=False)
    tags = serializers.ListField(child=Text())
    description = Text(allow_blank=True)
    modules = serializers.ListField(child=Text())
    status = serializers.ChoiceField(choices=["Installed", "Verified", "Invalid"])
    state = serializers.ChoiceField(
        choices=[EVALUATED, EVALUATING],
        help_text="evaluated: has topology or topologyError, and its API surfaces",
    )
    score = Number(min_value=0, max_value=100)
    pullCommand = Text()
    forkCommand = Text()
    suiteStar = Text(required=False, allow_blank=True)
    profiles = SuiteProfile(many=True)
    folders = Folder(many=True, required=False)
    sourceFiles = SourceFile(many=True, required=False)
    topology = Node(many=True, required=False)
    topologyError = Fault(required=False)
    resolvedDependencies = Dependency(many=True, required=False)
    contracts = serializers.ListField(child=Text())
    apiSurfaces = ApiSurface(many=True, required=False)
    launchable = Flag()
    contentDigest = Text()
    digest = Text(required=False, help_text="of the manifest, for a package of a registry")
    sources = serializers.ListField(
        child=Text(),
        required=False,
        help_text="repository:version of each registry that has just this package, if several do",
    )
    warnings = SuiteWarning(many=True)


class RegisterSuiteInput(StrictSerializer):
    """A suite as text. `files` are further files by their path in the package."""

    id = Text(max_length=128)
    title = Text(required=False, allow_blank=True, max_length=300)
    description = Text(required=False, allow_blank=True, max_length=2000)
    owner = Text(required=False, allow_blank=True, max_length=300)
    suiteStar = Text(trim_whitespace=False)
    files = serializers.DictField(
        child=Text(allow_blank=True, trim_whitespace=False), required=False
    )


@extend_schema_serializer(many=False)
class SuiteList(Shape):
    suites = Definition(many=True)
    total = Number(min_value=0)
    nextCursor = Text(required=False)


def query(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.QUERY, description=description, **more)


LIST_PARAMETERS: Final = [
    query("q", "occurs in id, title, repository or description"),
    query("tag", "one of the suite's tags"),
    query("view", "summary leaves out source and topology", enum=["full", "summary"]),
    OpenApiParameter("limit", int, OpenApiParameter.QUERY, description="1 to 200, default 50"),
    query("cursor", "`nextCursor` of the page before"),
]
MOST_WAIT_S: Final = 10
DETAIL_PARAMETERS: Final = [
    query("profile", "resolve with this profile's environment"),
    OpenApiParameter(
        "wait",
        int,
        OpenApiParameter.QUERY,
        description=f"seconds, 0 to {MOST_WAIT_S}, to wait for an evaluation that is under way",
    ),
]
