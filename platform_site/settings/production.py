"""Servers: every secret comes from the environment, and start-up fails without it."""

from __future__ import annotations

from platform_site.settings.base import *
from platform_site.settings.base import JWT_SECRET
from platform_site.settings.keys import require_jwt_secret

require_jwt_secret(JWT_SECRET)
