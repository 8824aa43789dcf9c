"""The forms of mocks: a call to explain, and what is removed from a space."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from django import forms

from apps.console.forms.base import PageForm, TextField
from apps.mocks.api import ExplainedCall

_MAX_HEADERS: Final = 100


class ExplainForm(PageForm):
    """A call as it would be sent; a header is a line."""

    method = TextField()
    path = TextField()
    headers = TextField()
    body = TextField()

    def clean_headers(self) -> dict[str, str]:
        lines = self.cleaned_data["headers"].splitlines()
        if len(lines) > _MAX_HEADERS:
            raise forms.ValidationError(f"a request has at most {_MAX_HEADERS} headers here")
        headers = (line.partition(":") for line in lines if ":" in line)
        return {name.strip(): value.strip() for name, _, value in headers}

    def call(self, surface_id: str, operation_id: str) -> ExplainedCall:
        """Return the call of an operation; raise InvalidInput."""
        self.require_valid()
        given = self.cleaned_data
        path, _, query = given["path"].partition("?")
        return ExplainedCall(
            surface_id=surface_id,
            operation_id=operation_id,
            method=given["method"],
            path=path,
            headers=given["headers"],
            query=dict(reversed(parse_qsl(query, keep_blank_values=True))),
            body=given["body"],
        )


class ResetForm(PageForm):
    """What of a space is removed: a record, the whole state, or the calls."""

    what = TextField()
    key = TextField()
    space = TextField()

    def clean(self) -> None:
        what, key = self.cleaned_data["what"], self.cleaned_data["key"]
        if what not in ("calls", "state") and not (what == "record" and key):
            raise forms.ValidationError("what must be calls, state or record")
