"""Accounts in the store. Tokens, tickets and session keys are stored only as SHA-256."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models, transaction

from apps.accounts.domain.account_rules import (
    alternative_slug,
    normalized_email,
    workspace_name,
    workspace_slug,
)
from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.domain.roles import Role
from apps.accounts.models.ci_session import CiSession as CiSession
from apps.accounts.models.device_authorization import DeviceAuthorization as DeviceAuthorization
from apps.accounts.models.expiring_rows import HASH_LENGTH as _HASH_LENGTH
from apps.accounts.models.expiring_rows import ExpiringManager
from kernel.clock import now
from kernel.ids import new_uuid


class Workspace(models.Model):
    """The tenant a user belongs to."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    slug = models.CharField(max_length=220, unique=True)
    name = models.CharField(max_length=220)
    created_at = models.DateTimeField(default=now)
    version = models.PositiveIntegerField(default=1, db_default=1)  # of its members

    def __str__(self) -> str:
        return self.slug


class UserManager(BaseUserManager["User"]):
    """For Django's commands and forms; the product makes accounts by `services.sign_up`."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Create an account that administers a workspace of its own."""
        user = self.model(email=normalized_email(email), **fields)
        user.set_password(password)
        slug = workspace_slug(user.full_name)
        with transaction.atomic(using=self._db):
            if Workspace.objects.filter(slug=slug).exists():
                slug = alternative_slug(slug)
            user.workspace = Workspace.objects.create(
                name=workspace_name(user.full_name or user.username), slug=slug
            )
            user.save(using=self._db)
            Membership.objects.create(user=user, workspace=user.workspace, role=Role.ADMIN)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Create an administrator of the installation, as `partita createsuperuser` does."""
        return self.create_user(email, password, **fields, is_admin=True)

    def active(self) -> models.QuerySet[User]:
        """Return the accounts that may sign in."""
        return self.filter(is_active=True)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=normalized_email(username or ""))


class User(AbstractBaseUser):
    """An account: Django's user model, whose key is a UUID. `email` is normalized.

    Administrators of the installation may use Django's admin. There are no other permissions of
    Django's: what a member may do in a workspace is the `role` of the membership.
    """

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["full_name"]
    objects: ClassVar[UserManager] = UserManager()

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="users")
    email = models.CharField(max_length=254, unique=True)
    full_name = models.CharField(max_length=200)
    password = models.CharField(max_length=256)
    is_admin = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    email_verified_at = models.DateTimeField(null=True)  # when its owner proved the address
    created_at = models.DateTimeField(default=now)

    def __str__(self) -> str:
        return self.email

    @property
    def is_staff(self) -> bool:
        """Return whether Django's admin lets the user in."""
        return self.is_admin

    @property
    def is_superuser(self) -> bool:
        return self.is_admin

    def has_perm(self, permission: str, _row: object = None) -> bool:
        """Return whether the admin may do it: look at rows, which only use cases change."""
        is_look = permission.partition(".")[2].startswith("view_")
        return is_look and self.is_active and self.is_admin

    def has_perms(self, permissions: Iterable[str], _row: object = None) -> bool:
        return all(self.has_perm(each) for each in permissions)

    def has_module_perms(self, _app: str) -> bool:
        return self.is_active and self.is_admin

    def get_full_name(self) -> str:
        return self.full_name

    def get_short_name(self) -> str:
        return self.full_name.partition(" ")[0]

    @property
    def username(self) -> str:
        """The part of the email address before the `@`."""
        return self.email.partition("@")[0]


class Membership(models.Model):
    """A user's role in a workspace. `User.workspace` is the one the user works in."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=[(role, role) for role in Role])
    created_at = models.DateTimeField(default=now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "workspace"], name="membership_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}"


class Invitation(models.Model):
    """A link that makes who follows it a member, once. `email` is empty: whoever has the link."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="invitations")
    invited_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="invitations")
    token_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    email = models.CharField(max_length=254, default="")
    role = models.CharField(max_length=16, choices=[(role, role) for role in Role])
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(db_index=True)

    objects = ExpiringManager()

    def __str__(self) -> str:
        return f"{self.role} of {self.workspace_id}"


class RefreshFamily(models.Model):
    """The refresh tokens of one sign-in, each exchanged for the next one."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="refresh_families")
    provider = models.CharField(max_length=128, default="password")
    groups = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(db_index=True)  # of its newest token
    revoked_at = models.DateTimeField(null=True)

    objects = ExpiringManager()

    class Meta:
        verbose_name_plural = "refresh families"

    def __str__(self) -> str:
        return str(self.id)


class ExternalAccount(models.Model):
    """What a sign-in provider calls a user."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="external_accounts")
    provider = models.CharField(max_length=128)
    subject = models.CharField(max_length=255)
    grants_admin = models.BooleanField(default=False)  # its groups made the user an administrator
    created_at = models.DateTimeField(default=now)
    last_used_at = models.DateTimeField(default=now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "subject"], name="external_account_once")
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.provider}"


class ExchangeCode(models.Model):
    """A one-time code that a front end exchanges for the tokens of a sign-in elsewhere."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="exchange_codes")
    provider = models.CharField(max_length=128)
    groups = models.JSONField(default=list)
    code_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return str(self.id)


class PasswordReset(models.Model):
    """The link that lets a user set a new password, once; a newer one replaces it."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="password_reset")
    token_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return str(self.id)


class SecondFactor(models.Model):
    """The secret of a user's authenticator app, encrypted; it counts once it was confirmed."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="second_factor")
    secret = models.TextField()
    last_step = models.BigIntegerField(default=0)  # of the newest code that was used: each is once
    created_at = models.DateTimeField(default=now)
    confirmed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return str(self.id)


class RecoveryCode(models.Model):
    """A code that stands in for the app, once."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    code_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)

    def __str__(self) -> str:
        return str(self.id)


class RefreshToken(models.Model):
    """A one-time refresh token and the access token that was issued with it."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    family = models.ForeignKey(RefreshFamily, on_delete=models.CASCADE, related_name="tokens")
    token_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    access_jti = models.CharField(max_length=64, db_index=True)
    access_expires_at = models.DateTimeField()
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return str(self.id)


class RevokedToken(models.Model):
    """A revoked access token, kept until it would have expired."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    jti = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.jti


class ApiToken(models.Model):
    """A credential of a program. To delete the row revokes it."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=200)
    token_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    scope = models.CharField(max_length=8, choices=[(scope, scope) for scope in TokenScope])
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(db_index=True)
    last_used_at = models.DateTimeField(null=True)

    objects = ExpiringManager()

    class Meta:
        verbose_name = "API token"

    def __str__(self) -> str:
        return self.name


class StreamTicket(models.Model):
    """A credential for one connection, valid as long as the credential that requested it."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="stream_tickets")
    ticket_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    path = models.CharField(max_length=300, default="")  # empty: any stream
    token_jti = models.CharField(max_length=64, default="")
    session_hash = models.CharField(max_length=_HASH_LENGTH, default="")
    credential_expires_at = models.DateTimeField()
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)

    objects = ExpiringManager()

    def __str__(self) -> str:
        return str(self.id)


class UiSession(models.Model):
    """A browser session. To delete the rows of a user signs the user's browsers out."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    key_hash = models.CharField(max_length=_HASH_LENGTH, unique=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="ui_sessions")
    data = models.TextField()
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(db_index=True)

    objects = ExpiringManager()

    class Meta:
        verbose_name = "UI session"

    def __str__(self) -> str:
        return str(self.id)


class LimitHit(models.Model):
    """One counted attempt of a rate limit or a failed sign-in. The key is hashed."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    key_hash = models.CharField(max_length=_HASH_LENGTH)
    expires_at = models.DateTimeField(db_index=True)  # when it leaves the window

    class Meta:
        indexes = [models.Index(fields=["key_hash", "expires_at"], name="limit_hit_key")]

    def __str__(self) -> str:
        return f"{self.key_hash[:8]} {self.expires_at}"
