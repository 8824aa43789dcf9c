"""REST of the profiles of suites (reference: control-plane 10)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import PrincipalMixin
from apps.http.rest import (
    PAGING,
    StrictSerializer,
    StrictViewSet,
    conditional_response,
    page_of,
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
    ProfileSummary,
    SuiteProfilesDocument,
    current_profiles,
    profile_edit,
    profile_summary,
    profiles_document,
)
from apps.suites.rest.schemas import Text
from apps.suites.selectors import every_suite, find_suite_by_id
from kernel.wire_types import Count

_PAGE: Final = page_of("ProfilesPage", suites=list[ProfileSummary], total=Count)


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


class SuiteProfilesViewSet(PrincipalMixin, StrictViewSet):
    """The profiles of all suites, and those of one."""

    lookup_url_kwarg = "suite_id"
    query_parameters: ClassVar[Any] = {"list": PAGING}

    @extend_schema(
        operation_id="profiles_suites_list",
        responses=_PAGE,
    )
    def list(self, request: Request) -> Response:
        found = every_suite()
        page = paginate(
            request, found, key=lambda suite: (suite.metadata.title.casefold(), suite.suite_id)
        )
        shown = [profile_summary(suite) for suite in page.items]
        return Response(page.as_dict("suites", shown, total=len(found)))

    @extend_schema(
        operation_id="profiles_of_suite", responses={200: SuiteProfilesDocument, 304: None}
    )
    def retrieve(self, request: Request, suite_id: str) -> Response:
        suite = find_suite_by_id(suite_id)
        return conditional_response(request, self.document(suite, current_profiles(suite)))

    @extend_schema(
        operation_id="profiles_create",
        request=ProfileInput,
        responses={201: SuiteProfilesDocument},
    )
    def create_in(self, request: Request, suite_id: str) -> Response:
        suite = self.writable(suite_id)
        draft = self.draft()
        written = create_profile(self.edit(suite), draft)
        response = self.answer(suite, written, status=201)
        response["Location"] = f"{request.path}/{written.profile_id}"
        return response

    @extend_schema(
        operation_id="profiles_replace", request=ProfileInput, responses=SuiteProfilesDocument
    )
    def replace(self, request: Request, suite_id: str, profile_id: str) -> Response:
        suite = self.writable(suite_id)
        require_profile(current_profiles(suite), profile_id)
        draft = self.draft()
        return self.answer(suite, replace_profile(self.edit(suite), profile_id, draft))

    @extend_schema(
        operation_id="profiles_delete", request=None, responses={200: SuiteProfilesDocument}
    )
    def remove(self, request: Request, suite_id: str, profile_id: str) -> Response:
        suite = self.writable(suite_id)
        return self.answer(suite, delete_profile(self.edit(suite), profile_id))

    @extend_schema(
        operation_id="profiles_make_default", request=None, responses=SuiteProfilesDocument
    )
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

    def document(self, suite: Suite, found: ProfileSet) -> SuiteProfilesDocument:
        return profiles_document(suite, found, self.principal)
