"""The form of a profile's editor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Final

from django import forms
from django.http import QueryDict

from apps.console.forms.base import TextField
from apps.profiles.api import Draft

_MAX_ROWS: Final = 200


def _input(placeholder: str, **attrs: object) -> forms.TextInput:
    return forms.TextInput({"placeholder": placeholder, "autocomplete": "off", **attrs})


def _code(placeholder: str, **attrs: object) -> forms.TextInput:
    return _input(placeholder, spellcheck="false", **attrs)


class MultilineField(TextField):
    """A text whose lines end as ours do: browsers send them with a carriage return."""

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n")


class EditorForm(forms.Form):
    """A form that people without the right to write can read."""

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        initial: Mapping[str, object] | None = None,
        may_write: bool = True,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}), auto_id="")
        for field in self.fields.values():
            is_text = not isinstance(field, forms.BooleanField)
            field.widget.attrs["readonly" if is_text else "disabled"] = not may_write


class ProfileForm(EditorForm):
    """The values of a profile. Where the form says nothing, the YAML decides."""

    name = TextField(widget=_input("Nightly", required=True, maxlength=200))
    fileName = TextField(  # noqa: N815 - as the API names it
        widget=_code("nightly.yaml", required=True, maxlength=120)
    )
    scope = TextField(widget=_input("by the file name", maxlength=100))
    description = MultilineField(widget=_input("What this profile is for", maxlength=2000))
    yaml = MultilineField()
    launchable = forms.BooleanField(required=False)


class SecretRefForm(EditorForm):
    """A row of the secret references beside the YAML."""

    key = TextField(widget=_code("API_TOKEN"))
    provider = TextField(widget=_code("vault", list="providers"))
    ref = TextField(widget=_code("kv/shop#token"))


def read_draft(posted: QueryDict) -> Draft:
    """Return what the editor sent, without the rows that are blank."""
    form = ProfileForm(posted)
    form.full_clean()
    given, names = form.cleaned_data, list(SecretRefForm.base_fields)
    columns = (posted.getlist(name)[:_MAX_ROWS] for name in names)
    rows = ([text.strip() for text in row] for row in zip_longest(*columns, fillvalue=""))
    refs = tuple(dict(zip(names, row, strict=True)) for row in rows if any(row))
    return Draft(file_name=given.pop("fileName"), secret_refs=refs, **given)


def draft_form(draft: Draft, *, scope: str, may_write: bool) -> ProfileForm:
    """Return the form that shows a draft; `scope` is that of the stored profile."""
    shown = asdict(draft) | {"fileName": draft.file_name}
    form = ProfileForm(initial=shown, may_write=may_write)
    if scope:
        form.fields["scope"].widget.attrs["placeholder"] = scope
    return form
