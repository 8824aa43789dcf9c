"""The settings document, as OpenAPI describes it; the rules are those of `domain/document`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.platform_settings.domain.wire import (
    AGENT,
    OVERRIDE,
    REGISTRY,
    SECRETS,
    SMTP,
    WORKSPACE,
    Key,
)

_CHOICES = {
    "mode": ["local", "remote", "hybrid"],
    "status": ["Ready", "Disconnected", "Standby"],
    "syncStatus": ["Pending", "Indexed", "Failed"],
}
_WARNINGS = "stored secrets that no key decrypts, which read as unset; ignored in a request"
_OPTIONAL = frozenset({"registeredAt", "lastHeartbeatAt", "waitsFor", "lastSyncedAt", "lastError"})


def _field(key: Key, *, required: bool) -> Any:
    needed = required and key.name not in _OPTIONAL
    if isinstance(key.default, str):
        return _text_field(key, required=needed)
    if isinstance(key.default, bool):
        return serializers.BooleanField(required=needed)
    if isinstance(key.default, int):
        return serializers.IntegerField(required=needed, min_value=key.low, max_value=key.high)
    return serializers.ListField(child=serializers.CharField(), required=needed)


def _text_field(key: Key, *, required: bool) -> Any:
    if key.name.endswith("At"):
        return serializers.DateTimeField(required=required)
    if key.name in _CHOICES:
        return serializers.ChoiceField(_CHOICES[key.name], required=required)
    return serializers.CharField(required=required, allow_blank=True, help_text=_note(key))


def _note(key: Key) -> str:
    if key.secret:
        return '"********" when set; sent back it keeps the stored value, "" clears it'
    return "empty for others than administrators" if key.private else ""


def _object(
    name: str, keys: tuple[Key, ...], *, required: bool, **more: Any
) -> type[serializers.Serializer[Any]]:
    fields = {key.name: _field(key, required=required) for key in keys}
    return type(name, (serializers.Serializer,), {**fields, **more})


def _warning(suffix: str) -> type[serializers.Serializer[Any]]:
    names = ("pointer", "code", "detail")
    fields = {name: serializers.CharField() for name in names}
    return type(f"SettingsWarning{suffix}", (serializers.Serializer,), fields)


def _document(suffix: str, *, required: bool) -> type[serializers.Serializer[Any]]:
    override = _object(f"SettingsOverride{suffix}", OVERRIDE, required=required)
    secrets = _object(
        f"SettingsSecrets{suffix}",
        SECRETS,
        required=required,
        globalOverrides=override(many=True, required=required),
    )
    notifications = _object(
        f"SettingsNotifications{suffix}",
        (),
        required=required,
        smtp=_object(f"SettingsSmtp{suffix}", SMTP, required=required)(required=required),
    )
    agent = _object(f"SettingsAgent{suffix}", AGENT, required=required)
    workspace = _object(f"SettingsWorkspace{suffix}", WORKSPACE, required=required)
    registry = _object(f"SettingsRegistry{suffix}", REGISTRY, required=required)
    warning = _warning(suffix)
    return _object(
        f"PlatformSettings{suffix}",
        (),
        required=required,
        mode=serializers.ChoiceField(_CHOICES["mode"], required=required),
        description=serializers.CharField(required=required, allow_blank=True),
        agents=agent(many=True, required=True),
        workspaces=workspace(
            many=True, required=required, help_text="for others than administrators their own alone"
        ),
        registries=registry(many=True, required=required),
        secrets=secrets(required=required),
        notifications=notifications(required=required),
        updatedAt=serializers.DateTimeField(required=False),
        fileInSync=serializers.BooleanField(required=required),
        warnings=warning(many=True, required=required, help_text=_WARNINGS),
    )


SettingsDocument = _document("", required=True)
SettingsInput = _document("Input", required=False)
