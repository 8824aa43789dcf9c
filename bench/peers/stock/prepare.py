"""Makes the tables and an account; prints its access token and its session's key."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402 - after setup
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: E402
from django.core.management import call_command  # noqa: E402
from rest_framework_simplejwt.tokens import AccessToken  # noqa: E402

from bench.peers.stock.models import User, Workspace  # noqa: E402

Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
call_command("migrate", run_syncdb=True, verbosity=0)
workspace = Workspace.objects.create(slug="bench", name="Bench")
user = User.objects.create(
    username="bench", email="bench@example.org", first_name="Bench", workspace=workspace
)
session = importlib.import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
print(json.dumps({"token": str(AccessToken.for_user(user)), "session": session.session_key}))
