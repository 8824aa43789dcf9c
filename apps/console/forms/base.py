"""What the forms of the pages have in common.

A form reads what a page sends and says what cannot be read; what an account, a workspace or the
settings do not allow, the use case refuses. Both are errors of one kind, so a page has one place
that shows them.
"""

from __future__ import annotations

from typing import Any

from django import forms

from kernel.errors import InvalidInput


class TextField(forms.Field):
    """Any text, as it was typed; "" where nothing was sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def to_python(self, value: Any) -> Any:
        return value or ""


class OpenSelect(forms.Select):
    """A choice that also has its value where that is not, or no longer, offered."""

    def optgroups(self, name: str, value: list[str], attrs: Any = None) -> list[Any]:
        known = {"", *dict(self.choices)}
        self.choices = [*self.choices, *((each, each) for each in value if each not in known)]
        return super().optgroups(name, value, attrs)


def text_field() -> forms.CharField:
    """Return a field of any text, as it was typed; the use case says what is wrong with it."""
    return forms.CharField(required=False, strip=False)


def id_field(noun: str) -> forms.UUIDField:
    """Return a field of the id of what a button stands beside."""
    error = f"the form names no {noun}"
    return forms.UUIDField(error_messages={"required": error, "invalid": error})


class PageForm(forms.Form):
    """A form whose first error is the error of its page."""

    def require_valid(self) -> None:
        """Raise InvalidInput with the first error unless the form is valid."""
        if not self.is_valid():
            raise InvalidInput(str(next(iter(self.errors.values()))[0]))
