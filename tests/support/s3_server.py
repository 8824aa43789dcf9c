"""An S3 server (moto) on a loopback port, one for the test process, stopped with it."""

from __future__ import annotations

import atexit
import logging
from functools import cache
from typing import Any

import boto3
from botocore import loaders
from botocore.config import Config
from moto.server import ThreadedMotoServer

from sync_stack.core.bundle.secrets import SecretRef

# Each session would read the description of S3 anew: 60 ms of CPU.
loaders.create_loader = cache(loaders.create_loader)
ACCESS_KEY, SECRET_KEY = "testing", "testing-secret"


@cache
def endpoint() -> str:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    atexit.register(server.stop)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


@cache
def client() -> Any:
    """Somebody else's."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint(),
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(s3={"addressing_style": "path"}),
    )


def options() -> dict[str, Any]:
    return {
        "endpoint": endpoint(),
        "force_path_style": True,
        "access_key_id": SecretRef(value=ACCESS_KEY),
        "secret_access_key": SecretRef(value=SECRET_KEY),
    }
