"""The filters of lists: forms whose fields are the parameters of the address."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django import forms

from apps.console.domain import environment_display
from apps.console.forms.base import OpenSelect
from kernel.errors import FieldError, InvalidInput

TEXT_MAX: Final = 200
EVERYTHING: Final = "everything"  # the word that confirms the removal of all environments
ZOMBIES: Final = "zombies"
RUN_STATUSES: Final = {
    "": "Any status",
    "Queued,Booting,Canceling": "Active",
    "Queued": "Queued",
    "Booting,Canceling": "Running",
    "Healthy": "Healthy",
    "Failed": "Failed",
    "Canceled": "Canceled",
}
RUN_TIMES: Final = {
    "": ("Any time", None),
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
_MARK: Final = {"": "", "true": ""}


class FilterText(forms.Field):
    """A text without the spaces around it, "" where it is absent."""

    def __init__(self, placeholder: str = "", widget: forms.Widget | None = None) -> None:
        super().__init__(required=False, widget=widget or forms.TextInput())
        if placeholder:
            self.widget.attrs["placeholder"] = placeholder

    def widget_attrs(self, widget: forms.Widget) -> dict[str, object]:
        return {"maxlength": TEXT_MAX} if isinstance(widget, forms.widgets.Input) else {}

    def clean(self, value: Any) -> str:
        text = str(value or "").strip()
        if len(text) > TEXT_MAX or not text.isprintable():
            raise forms.ValidationError(f"at most {TEXT_MAX} printable characters")
        return text


class FilterChoice(forms.ChoiceField):
    """One of the choices, which have "" where the filter may be absent."""

    def clean(self, value: Any) -> str:
        found, offered = str(value or "").strip(), dict(self.widget.choices)
        if found not in offered:
            known = ", ".join(filter(None, offered))
            raise forms.ValidationError(f"{found[:TEXT_MAX]!r} is none of {known}")
        return found


class FilterForm(forms.Form):
    """The parameters of the address of a list."""

    use_required_attribute = False  # a choice of "" would keep browsers from sending the form

    def __init__(self, data: Mapping[str, str]) -> None:
        super().__init__(data, auto_id="")

    def read(self) -> dict[str, str]:
        """Return the value of each parameter; raise InvalidInput (invalid_parameter)."""
        for name, errors in self.errors.items():
            error = FieldError(pointer=f"/{name}", code="invalid_value", detail=str(errors[0]))
            detail = f"{name}: {error.detail}"
            raise InvalidInput(detail, code="invalid_parameter", errors=[error])
        return self.cleaned_data


class RunFilters(FilterForm):
    status = FilterChoice(choices=RUN_STATUSES)
    suite = FilterText()
    profile = FilterText("default.yaml")
    author = FilterText()
    q = FilterText("title, id, branch, commit", forms.SearchInput())
    time = FilterChoice(choices={value: words for value, (words, _) in RUN_TIMES.items()})
    before = FilterText()

    def __init__(self, data: Mapping[str, str], suites: Mapping[str, str]) -> None:
        """Offer `suites`, titles by id; one that is gone may still have runs."""
        super().__init__(data)
        self.fields["suite"].widget = OpenSelect(choices=[("", "Any suite"), *suites.items()])


class SuiteFilters(FilterForm):
    q = FilterText("title, id, description, owner or tag", forms.SearchInput())
    sort = FilterChoice(choices={"": "Name", "recent": "Last run", "failed": "Failed last"})


class EnvironmentFilters(FilterForm):
    status = FilterChoice(choices=environment_display.STATUSES)
    q = FilterText("run, suite, owner, container", forms.SearchInput({"id": "environments-q"}))


class RemovalScope(FilterForm):
    scope = FilterChoice(choices={EVERYTHING: "", ZOMBIES: ""})


class PackageFilters(FilterForm):
    q = FilterText(
        "title, repository, description or module", forms.SearchInput({"id": "catalog-q"})
    )
    kind = FilterText()
    provider = FilterText()
    owner = FilterText()
    module = FilterText()
    runnable = FilterChoice(choices=_MARK)
    inspectable = FilterChoice(choices=_MARK)
    starred = FilterChoice(choices=_MARK)
    sort = FilterChoice(
        choices={"": "Name", "updated": "Last seen", "score": "Score"},
        widget=forms.Select({"id": "catalog-sort"}),
    )
