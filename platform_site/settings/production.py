"""Servers: every secret comes from the environment, and start-up fails without it."""

from __future__ import annotations

import sys

from platform_site.settings.base import *
from platform_site.settings.base import JWT_SECRET
from platform_site.settings.keys import require_jwt_secret

if sys.argv[1:2] != ["run_worker"]:  # it signs nothing and has no store
    require_jwt_secret(JWT_SECRET)
