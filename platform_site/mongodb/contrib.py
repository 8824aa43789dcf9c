"""Django's apps on MongoDB, as django-mongodb-backend documents it: their keys are ObjectIds."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig

from platform_site.admin_app import AdminConfig

_OBJECT_ID: Final = "django_mongodb_backend.fields.ObjectIdAutoField"


class MongoContentTypesConfig(ContentTypesConfig):
    default_auto_field = _OBJECT_ID


class MongoAuthConfig(AuthConfig):
    default_auto_field = _OBJECT_ID


class MongoAdminConfig(AdminConfig):
    default_auto_field = _OBJECT_ID
