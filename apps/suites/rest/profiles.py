"""REST of the profiles of suites (reference: control-plane 10)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import PrincipalMixin
from apps.http.rest import (
    PAGING,
    StrictSerializer,
    StrictViewSet,
    conditional_response,
    paginate,
)
from apps.profiles.api import (
    Draft,
    Edit,
    ProfileSet,
    Written,
    create_profile,
    delete_profile,
    make_default,
    replace_profile,
    require_profile,
    require_writer,
)
from apps.suites.domain.definition import Suite
from apps.suites.profiles import (
    current_profiles,
    profile_edit,
    profile_summary,
    profiles_document,
)
from apps.suites.rest.schemas import Flag, Number, Shape, Text
from apps.suites.selectors import every_suite, find_suite_by_id

_SOURCES: Final = ["workspace", "managed"]


class SecretReference(StrictSerializer):
    """Where the value of a variable is: never the value."""

    key = Text()
    provider = Text()
    ref = Text()


class ProfileInput(StrictSerializer):
    """A profile. Where `default` and `extendsId` are absent, the YAML decides."""

    name = Text(allow_blank=True)
    fileName = Text(allow_blank=True, trim_whitespace=False)
    yaml = Text(allow_blank=True, trim_whitespace=False, help_text="at most 256 KiB")
    description = Text(required=False, allow_blank=True)
    scope = Text(required=False, allow_blank=True, help_text="derived of the file name when blank")
    secretRefs = SecretReference(many=True, required=False)
    default = serializers.BooleanField(required=False)
    extendsId = Text(required=False, allow_blank=True)
    launchable = serializers.BooleanField(
        required=False, help_text="by default true, for a base of others false"
    )


class ProfileProblem(Shape):
    """Why the profile cannot be used."""

    pointer = Text()
    code = Text()
    detail = Text()
    file = Text(required=False)
    line = Number(required=False)
    column = Number(required=False)


class ProfileShape(Shape):
    """A profile of a suite. `updatedAt` and `updatedBy` are those of stored profiles."""

    id = Text()
    name = Text()
    fileName = Text()
    description = Text(required=False)
    scope = Text()
    yaml = Text(allow_blank=True)
    secretRefs = SecretReference(many=True)
    default = Flag()
    extendsId = Text(required=False)
    launchable = Flag()
    source = serializers.ChoiceField(choices=_SOURCES)  # type: ignore[assignment]
    updatedAt = serializers.DateTimeField(required=False)
    updatedBy = Text(required=False)
    problem = ProfileProblem(required=False)


class ProfileWarning(Shape):
    profileId = Text()
    code = Text()
    detail = Text()
    file = Text(required=False)
    line = Number(required=False)
    column = Number(required=False)


class ProfilesOfSuite(Shape):
    suiteId = Text()
    suiteTitle = Text()
    suiteDescription = Text(allow_blank=True)
    repository = Text()
    defaultProfileId = Text(required=False)
    defaultProfileFileName = Text(required=False)
    profiles = ProfileShape(many=True)
    warnings = ProfileWarning(many=True)


class ProfilesSummary(Shape):
    id = Text()
    title = Text()
    description = Text(allow_blank=True)
    repository = Text()
    profileCount = Number(min_value=0)
    launchableCount = Number(min_value=0)
    defaultProfileFileName = Text(required=False)


@extend_schema_serializer(many=False)
class ProfilesSummaryList(Shape):
    suites = ProfilesSummary(many=True)
    total = Number(min_value=0)
    nextCursor = Text(required=False)


class SuiteProfilesViewSet(PrincipalMixin, StrictViewSet):
    """The profiles of all suites, and those of one."""

    lookup_url_kwarg = "suite_id"
    query_parameters: ClassVar[Any] = {"list": PAGING}

    @extend_schema(operation_id="profiles_suites_list", responses=ProfilesSummaryList)
    def list(self, request: Request) -> Response:
        found = every_suite()
        page = paginate(
            request, found, key=lambda suite: (suite.metadata.title.casefold(), suite.suite_id)
        )
        shown = [profile_summary(suite) for suite in page.items]
        return Response(page.as_dict("suites", shown, total=len(found)))

    @extend_schema(operation_id="profiles_of_suite", responses={200: ProfilesOfSuite, 304: None})
    def retrieve(self, request: Request, suite_id: str) -> Response:
        suite = find_suite_by_id(suite_id)
        return conditional_response(request, self.document(suite, current_profiles(suite)))

    @extend_schema(
        operation_id="profiles_create",
        request=ProfileInput,
        responses={201: ProfilesOfSuite},
    )
    def create_in(self, request: Request, suite_id: str) -> Response:
        suite = self.writable(suite_id)
        draft = self.draft()
        written = create_profile(self.edit(suite), draft)
        response = self.answer(suite, written, status=201)
        response["Location"] = f"{request.path}/{written.profile_id}"
        return response

    @extend_schema(operation_id="profiles_replace", request=ProfileInput, responses=ProfilesOfSuite)
    def replace(self, request: Request, suite_id: str, profile_id: str) -> Response:
        suite = self.writable(suite_id)
        require_profile(current_profiles(suite), profile_id)
        draft = self.draft()
        return self.answer(suite, replace_profile(self.edit(suite), profile_id, draft))

    @extend_schema(operation_id="profiles_delete", request=None, responses={200: ProfilesOfSuite})
    def remove(self, request: Request, suite_id: str, profile_id: str) -> Response:
        suite = self.writable(suite_id)
        return self.answer(suite, delete_profile(self.edit(suite), profile_id))

    @extend_schema(operation_id="profiles_make_default", request=None, responses=ProfilesOfSuite)
    def make_default(self, request: Request, suite_id: str, profile_id: str) -> Response:
        suite = self.writable(suite_id)
        self.body(StrictSerializer)
        return self.answer(suite, make_default(self.edit(suite), profile_id))

    def writable(self, suite_id: str) -> Suite:
        require_writer(self.principal)
        return find_suite_by_id(suite_id)

    def edit(self, suite: Suite) -> Edit:
        if_match = self.request.headers.get("If-Match", "")
        return profile_edit(self.principal, suite, if_match=if_match)

    def draft(self) -> Draft:
        body = self.body(ProfileInput)
        return Draft(
            name=body["name"],
            file_name=body["fileName"],
            yaml=body["yaml"],
            description=body.get("description", ""),
            scope=body.get("scope", ""),
            secret_refs=tuple(body.get("secretRefs", ())),
            default=body.get("default"),
            extends_id=body.get("extendsId"),
            launchable=body.get("launchable"),
        )

    def answer(self, suite: Suite, written: Written, *, status: int = 200) -> Response:
        document = self.document(suite, written.profiles)
        return conditional_response(self.request, document, status=status)

    def document(self, suite: Suite, found: ProfileSet) -> Any:
        return profiles_document(suite, found, self.principal)
