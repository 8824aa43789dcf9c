"""The control plane as an ASGI application: `uvicorn platform_site.asgi:application`."""

from __future__ import annotations

import faulthandler
import os
import signal
from importlib import import_module

import django
from channels.routing import ProtocolTypeRouter, URLRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "platform_site.settings.production")  # noqa: TID251
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402 - the apps must be ready first
from django.urls import get_resolver  # noqa: E402

from apps.executions.urls import no_such_socket, websocket_urlpatterns  # noqa: E402
from apps.health.api import probes  # noqa: E402
from apps.http.asgi import ControlPlaneHandler, Lifespan  # noqa: E402
from apps.http.hosts import serve_known_hosts  # noqa: E402
from apps.mocks.data_plane import mocks_in_front  # noqa: E402
from apps.observability.logs import protect_server_logs  # noqa: E402
from apps.operations.api import lifespan_parts, shared_redis  # noqa: E402
from apps.shells.urls import websocket_urlpatterns as shell_sockets  # noqa: E402
from kernel.garbage import collect_seldom  # noqa: E402
from platform_site.settings.keys import require_jwt_secret  # noqa: E402

faulthandler.register(signal.SIGUSR1)  # what each thread does, for a process that hangs
require_jwt_secret(settings.JWT_SECRET)
protect_server_logs()

application = mocks_in_front(
    serve_known_hosts(
        ProtocolTypeRouter(
            {
                "http": ControlPlaneHandler(),
                "websocket": URLRouter([*websocket_urlpatterns, *shell_sockets, no_such_socket]),
                "lifespan": Lifespan(),
            }
        )
    )
)

# What is imported only when it is used is imported now: no request waits for it.
get_resolver().url_patterns  # noqa: B018 - a cached property
for registry in (lifespan_parts, probes):
    for name in registry:
        registry[name]
shared_redis()
import_module("jwt")
collect_seldom()
