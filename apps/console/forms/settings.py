"""The forms of the settings pages: one of each object, and of each entry of a list.

The fields follow from the table of settings keys, in the words of the sections. They take any text;
what is wrong with it, the settings say, and `show_errors` puts it at its field. Lists are no Django
formsets: their entries are added, moved and removed without a script, before anything is stored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.forms.boundfield import BoundField

from apps.console.domain.settings_sections import FieldWords, Group
from apps.console.forms.base import OpenSelect, TextField
from apps.platform_settings.api import MASK, Key
from kernel.errors import FieldError, InvalidInput

MAX_ENTRIES: Final = 500
_MAX_DIGITS: Final = 10
_NO_ENTRY: Final[Mapping[str, Any]] = {}
Document = Mapping[str, Any]


class ListField(TextField):
    """Texts that are separated by commas, or by lines where the field has many."""

    def to_python(self, value: Any) -> list[str]:
        texts = super().to_python(value).replace("\n", ",").split(",")
        return [each.strip() for each in texts if each.strip()]

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value


class NumberField(TextField):
    """A whole number, None if there is none, or the text that is not a number."""

    def to_python(self, value: Any) -> int | str | None:
        return _whole_number(super().to_python(value))


class SettingBoundField(BoundField):
    """A field of the page with what is stored of it and the words that people read."""

    form: SettingsForm

    @property
    def key(self) -> Key:
        return self.form.keys[self.name]

    @property
    def words(self) -> FieldWords:
        return self.form.group.fields[self.name]

    @property
    def aria_describedby(self) -> str:
        return f"{self.html_name}-note"

    @property
    def data(self) -> Any:
        """Return what was sent; an empty secret keeps the stored one unless it is cleared."""
        sent, posted = super().data, self.form.data
        if not _may_be_secret(self.key):
            return sent
        kept = MASK if f"{self.html_name}-set" in posted else ""
        return "" if f"{self.html_name}-clear" in posted else sent or kept

    def value(self) -> Any:
        """Return the value for people, who see no stored secret."""
        value = super().value()
        return "" if value == MASK and _may_be_secret(self.key) else value

    @property
    def is_set(self) -> bool:
        """Return whether a secret is stored, which is not shown."""
        return self.form.has_secret(self.key)

    @property
    def is_cleared(self) -> bool:
        return self.is_set and (self.data if self.form.is_bound else self.initial) == ""

    @property
    def is_required(self) -> bool:
        """Return whether the label says so; a choice always has a value."""
        return self.key.required and not self.words.options

    @property
    def is_idle(self) -> bool:
        """Return whether the field is hidden: entries of another type have it."""
        types = self.words.types
        is_used = self.errors or self.is_set or self.value() not in ("", None, self.key.default)
        return not (is_used or not types or self.form.entry_type in types)


class SettingsForm(forms.Form):
    """The form of an object or an entry; `stored` is what the platform knows of it."""

    use_required_attribute = False
    bound_field_class = SettingBoundField

    def __init__(
        self,
        group: Group,
        index: int,
        known: Mapping[str, Mapping[str, Any]],
        *,
        values: Mapping[str, Any] | None = None,
        posted: Mapping[str, str] | None = None,
    ) -> None:
        """Show `values`, or what was posted. `known` are the stored entries by their identity."""
        at = str(index) if group.keys.is_list else ""
        super().__init__(
            posted,
            initial=dict(values or {}),
            prefix="-".join(filter(None, (group.prefix, at))),
            auto_id="%s",
        )
        self.group = group
        self.keys = {key.name: key for key in group.keys.settable}
        self.pointer = f"{group.keys.pointer}/{at}" if at else group.keys.pointer
        name = group.keys.identity
        given = self.initial.get(name) if posted is None else posted.get(self.add_prefix(name))
        self.identity = str(given or "") if at else ""
        self.stored = known.get(self.identity, _NO_ENTRY)
        self.fields = {name: self._build_field(self.keys[name]) for name in group.fields}

    @property
    def entry_type(self) -> str:
        """Return the type of the entry, "" where there are none: it decides what is shown."""
        if not self.group.type_key:
            return ""
        field = self[self.group.type_key]
        return str(field.value() or field.field.initial)

    @property
    def values(self) -> Mapping[str, object]:
        """Return what was posted, as it stands in the document."""
        self.full_clean()
        return self.cleaned_data

    def has_secret(self, key: Key) -> bool:
        return _may_be_secret(key) and self.stored.get(key.name) == MASK

    def show_errors(self, details: Mapping[str, str]) -> None:
        """Take the errors of this form; `details` are sentences by JSON pointer."""
        if self.group.keys.is_list and self.pointer in details:
            self.add_error(None, details[self.pointer])
        for name, words in self.group.fields.items():
            if detail := details.get(f"{self.pointer}/{name}"):
                rest = detail.removeprefix(f"{name} ")  # people know the label, not the key
                self.add_error(name, detail if rest == detail else f"{words.label} {rest}")

    def _build_field(self, key: Key) -> forms.Field:
        words = self.group.fields[key.name]
        if isinstance(key.default, bool):
            return forms.BooleanField(required=False, label=words.label, initial=key.default)
        if words.options:
            decides = {"data-decides": key.name == self.group.type_key}
            widget = OpenSelect(attrs=decides, choices=words.options)
            return TextField(widget=widget, label=words.label, initial=words.options[0][0])
        return _FIELDS[type(key.default)](widget=self._build_input(key, words), label=words.label)

    def _build_input(self, key: Key, words: FieldWords) -> forms.Widget:
        attrs: dict[str, object] = {"autocomplete": "off", "spellcheck": "false"}
        if words.is_long:
            return forms.Textarea(attrs | {"rows": 3, "cols": False})
        if key.secret or self.has_secret(key):
            attrs["autocomplete"] = "new-password"
            return forms.PasswordInput(attrs, render_value=True)
        return forms.TextInput(attrs | {"inputmode": isinstance(key.default, int) and "numeric"})


_FIELDS: Final[Mapping[type, type[TextField]]] = {
    int: NumberField,
    tuple: ListField,
    str: TextField,
}


def _may_be_secret(key: Key) -> bool:
    return key.secret or bool(key.hidden_by)


@dataclass(slots=True, kw_only=True)
class Panel:
    """A group of the settings as its page shows it; `error` is one of the whole list."""

    group: Group
    forms: Sequence[SettingsForm]
    error: str = ""

    @property
    def values(self) -> Any:
        """Return what was posted: an object, or a list of them."""
        values = [form.values for form in self.forms]
        return values if self.group.keys.is_list else values[0]


def build_panel(group: Group, document: Document, values: Any = None) -> Panel:
    """Return the panel of what is stored, or of `values` that are not stored yet."""
    shown = value_at(document, group.keys.path) if values is None else values
    entries = shown if group.keys.is_list else [shown]
    known = _stored_entries(group, document)
    made = [SettingsForm(group, index, known, values=each) for index, each in enumerate(entries)]
    return Panel(group=group, forms=made)


def read_panel(group: Group, document: Document, posted: Mapping[str, str]) -> Panel:
    """Return the panel of what a browser sent; raise InvalidInput for no count of entries."""
    count = _entry_count(group, posted) if group.keys.is_list else 1
    known = _stored_entries(group, document)
    made = [SettingsForm(group, index, known, posted=posted) for index in range(count)]
    return Panel(group=group, forms=made)


def apply_entry_action(entries: Sequence[Any], action: str) -> list[Any]:
    """Return the entries after `add`, `remove-2`, `up-2` or `down-2`; others change nothing."""
    verb, _, at = action.partition("-")
    made = list(entries)
    if verb == "add":
        return [*made, {}]
    index = _whole_number(at)
    if not isinstance(index, int) or index >= len(made):
        return made
    if verb == "remove":
        del made[index]
    elif verb in ("up", "down"):
        other = index - 1 if verb == "up" else index + 1
        if 0 <= other < len(made):
            made[index], made[other] = made[other], made[index]
    return made


def show_errors(panels: Iterable[Panel], errors: Sequence[FieldError]) -> list[dict[str, str]]:
    """Put each error at its field, entry or list, and return all of them for the top of the page.

    What is returned of each is its entry, its sentence and the field, which is empty where the
    error belongs to none. A fault of a text of a list is one of the list's field; the first counts.
    """
    panels = list(panels)
    fields = {
        f"{each.pointer}/{name}" for panel in panels for each in panel.forms for name in each.fields
    }
    placed = [_place_error(each, fields) for each in errors]
    details: dict[str, str] = {}
    shown = []
    for pointer, detail in placed:
        details.setdefault(pointer, detail)
    for panel in panels:
        if panel.group.keys.is_list:
            panel.error = details.get(panel.group.keys.pointer, "")
        for form in panel.forms:
            form.show_errors(details)
            shown += [
                {"entry": form.identity, "detail": str(field.errors[0]), "field": field.html_name}
                for field in form
                if field.errors
            ]
    others = [detail for pointer, detail in placed if pointer not in fields]
    return [*shown, *({"entry": "", "detail": each, "field": ""} for each in others)]


def _place_error(error: FieldError, fields: Set[str]) -> tuple[str, str]:
    """Return the pointer of the field to which an error belongs, else its own, and its sentence."""
    field, _, at = error.pointer.rpartition("/")
    if error.pointer in fields or field not in fields or not at.isdecimal():
        return error.pointer, error.detail
    return field, f"{error.detail} (number {int(at) + 1} of the list)"


def replace_values(document: Document, panels: Iterable[Panel]) -> dict[str, Any]:
    """Return a copy of the document with the values of these panels in their places."""
    made = copy.deepcopy(dict(document))
    for panel in panels:
        place = value_at(made, panel.group.keys.path)
        if panel.group.keys.is_list:
            place[:] = panel.values
        else:
            place.update(panel.values)
    return made


def value_at(document: Document, path: Iterable[str]) -> Any:
    """Return the object or the list of a document to which `path` leads."""
    found: Any = document
    for part in path:
        found = found[part]
    return found


def _stored_entries(group: Group, document: Document) -> dict[str, Mapping[str, Any]]:
    """Return what is stored by the identity of the entries, "" for the one object."""
    found = value_at(document, group.keys.path)
    return (
        {each[group.keys.identity]: each for each in found} if group.keys.is_list else {"": found}
    )


def _entry_count(group: Group, posted: Mapping[str, str]) -> int:
    count = _whole_number(posted.get(f"{group.prefix}-count", ""))
    if not isinstance(count, int) or count > MAX_ENTRIES:
        raise InvalidInput(f"the form must have at most {MAX_ENTRIES} entries, and say how many")
    return count


def _whole_number(text: str) -> int | str | None:
    is_whole = text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS
    return int(text) if is_whole else text or None
