"""The settings document as OpenAPI describes it, from the table of the keys."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypedDict

from rest_framework import serializers

from apps.platform_settings.domain.keys import (
    AGENTS,
    CI_TRUST,
    INSTALLATION,
    OVERRIDES,
    REGISTRIES,
    SECRETS,
    SMTP,
    WORKSPACES,
    Key,
    KeyGroup,
)

Schema = type[serializers.Serializer[Any]]
_MASKED: Final = '"********" when set; sent back it keeps the stored value, "" clears it'
_PRIVATE: Final = "empty for others than administrators"
_WARNINGS: Final = "stored secrets that no key decrypts, which read as unset; ignored in a request"


class SettingDifference(TypedDict):
    """A key such as `agents[edge].hostUrl`, before and after; empty stands for none."""

    key: str
    old: Annotated[str, "secrets are masked"]
    new: str


class SettingsPreview(TypedDict):
    """What a replacement would change; at most 500 keys."""

    changes: list[SettingDifference]


def _field(key: Key, *, required: bool) -> serializers.Field[Any, Any, Any, Any]:
    needed = required and not key.optional
    if isinstance(key.default, tuple):
        return serializers.ListField(child=serializers.CharField(), required=needed)
    if isinstance(key.default, bool):
        return serializers.BooleanField(required=needed)
    if isinstance(key.default, int):
        return serializers.IntegerField(
            required=needed, min_value=key.low, max_value=key.high, help_text=key.note
        )
    return _text_field(key, required=needed)


def _text_field(key: Key, *, required: bool) -> serializers.Field[Any, Any, Any, Any]:
    if key.is_time:
        return serializers.DateTimeField(required=required)
    if key.choices:
        return serializers.ChoiceField(key.choices, required=required)
    note = key.note or (_MASKED if key.secret else _PRIVATE if key.private else "")
    return serializers.CharField(required=required, allow_blank=True, help_text=note)


def _object(
    name: str,
    group: KeyGroup | None,
    *,
    required: bool,
    **more: serializers.Field[Any, Any, Any, Any],
) -> Schema:
    keys = group.keys if group else ()
    fields = {key.name: _field(key, required=required) for key in keys}
    return type(name, (serializers.Serializer,), {**fields, **more})


def _document(suffix: str, *, required: bool) -> Schema:
    def object_of(name: str, group: KeyGroup | None, **more: Any) -> Schema:
        return _object(f"{name}{suffix}", group, required=required, **more)

    def list_of(name: str, group: KeyGroup, *, needed: bool = required) -> Any:
        return object_of(name, group)(many=True, required=needed, help_text=group.note)

    warning = {name: serializers.CharField() for name in ("pointer", "code", "detail")}
    smtp = object_of("SettingsSmtp", SMTP)(required=required)
    return object_of(
        "PlatformSettings",
        INSTALLATION,
        agents=list_of("SettingsAgent", AGENTS, needed=True),
        workspaces=list_of("SettingsWorkspace", WORKSPACES),
        registries=list_of("SettingsRegistry", REGISTRIES),
        ciTrust=list_of("SettingsTrustRule", CI_TRUST),
        secrets=object_of(
            "SettingsSecrets", SECRETS, globalOverrides=list_of("SettingsOverride", OVERRIDES)
        )(required=required),
        notifications=object_of("SettingsNotifications", None, smtp=smtp)(required=required),
        warnings=object_of("SettingsWarning", None, **warning)(
            many=True, required=required, help_text=_WARNINGS
        ),
    )


SettingsDocument = _document("", required=True)
SettingsInput = _document("Input", required=False)
