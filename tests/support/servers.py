"""Real servers for the tests, on private ports and in a private folder; stopped at the end.

Each function is a context manager that yields the environment variables by which tests find the
server. A server whose program is missing yields nothing: its tests skip, or fail when CI is set.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.packages import program
from tests.support.parts import give_up

START_S = 60
_PORTS = (11_000, 32_000)
_draw = random.Random()  # not the one that tests seed
_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on, never the same twice.

    Below those that the kernel gives to outgoing connections, and drawn: between the question and
    the server's start another process of the tests may ask, too.
    """
    while True:
        port = _draw.randrange(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def redis_command(port: int) -> list[str] | None:
    """A Redis that keeps nothing on disk; None where the program is missing."""
    if (binary := program("redis-server")) is None:
        return None
    return [
        *(binary, "--port", str(port), "--bind", "127.0.0.1"),
        *("--save", "", "--appendonly", "no"),
    ]


@contextmanager
def redis(folder: Path) -> Iterator[dict[str, str]]:
    port = free_port()
    if (command := redis_command(port)) is None:
        yield {}
        return
    with running(command, folder / "redis.log", ready=lambda: listens(port)):
        yield {"TEST_REDIS_ADDR": f"127.0.0.1:{port}"}


@contextmanager
def own_redis(folder: Path) -> Iterator[str]:
    """Yield the address of a Redis of the test's own, which ends here; without one, give up."""
    with redis(folder) as environment:
        yield environment.get("TEST_REDIS_ADDR") or give_up("redis-server is not installed")


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def postgres_owner() -> str | None:
    """PostgreSQL refuses root: then its server belongs to the user postgres."""
    return "postgres" if os.geteuid() == 0 else None


def postgres_command(folder: Path, port: int, *, durable: bool = False) -> list[str] | None:
    """Make a cluster below `folder` unless one is there; how its server is started.

    It is started by `postgres_owner()`. `durable`: commits wait for the disk, as on a real server;
    tests do without. None where the program is missing.
    """
    if (initdb := program("initdb")) is None:
        return None
    data = folder / "postgres"
    if owner := postgres_owner():
        folder.mkdir(parents=True, exist_ok=True)
        _open_parents(folder)
    if not data.exists():
        data.mkdir(parents=True)
        if owner:
            shutil.chown(data, owner, owner)
        words = [initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
        words += ["-E", "UTF8"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/", **_as_owner())
    settings = (f"fsync={'on' if durable else 'off'}", "max_connections=200")
    return [
        *(str(Path(initdb).parent / "postgres"), "-D", str(data), "-p", str(port), "-k", str(data)),
        *(word for setting in settings for word in ("-c", setting)),
        *("-c", "listen_addresses=127.0.0.1"),
    ]


@contextmanager
def postgres(folder: Path, *, durable: bool = False) -> Iterator[dict[str, str]]:
    """A cluster of its own."""
    port = free_port()
    if (command := postgres_command(folder, port, durable=durable)) is None:
        yield {}
        return
    dsn = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with running(
        command, folder / "postgres.log", ready=lambda: _serves(dsn), stop=signal.SIGINT,
        **_as_owner(),
    ):  # fmt: skip
        yield {"TEST_POSTGRES_DSN": dsn}


@contextmanager
def database(server: str, name: str) -> Iterator[str]:
    """The address of a new database on that PostgreSQL; it is gone at the end."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield f"{server.rsplit('/', 1)[0]}/{name}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _serves(dsn: str) -> bool:
    """It listens some time before it lets anybody in."""
    try:
        psycopg.connect(dsn, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _as_owner() -> dict[str, Any]:
    owner = postgres_owner()
    return {"user": owner, "group": owner, "extra_groups": []} if owner else {}


@contextmanager
def docker(folder: Path) -> Iterator[dict[str, str]]:
    """The engine that already answers, else a dockerd of our own (root only)."""
    if _docker_answers(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")):
        host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        yield {"DOCKER_HOST": host, "TEST_DOCKER_HOST": host}
        return
    binary = program("dockerd")
    if binary is None or os.geteuid() != 0:
        yield {}
        return
    runtime = Path(f"/run/partita-test-{os.getpid()}")  # a socket path must stay short
    runtime.mkdir(mode=0o700)
    host = f"unix://{runtime}/docker.sock"
    command = [
        binary,
        "--data-root",
        str(folder / "docker"),
        "--exec-root",
        str(runtime / "exec"),
        "-H",
        host,
        "-p",
        str(runtime / "pid"),
        # The ranges an engine takes unasked hold thirty networks: fewer than runs of a whole test.
        "--default-address-pool",
        "base=10.213.0.0/16,size=24",
    ]
    try:
        with running(command, folder / "dockerd.log", ready=lambda: _docker_answers(host)):
            try:
                yield {"DOCKER_HOST": host, "TEST_DOCKER_HOST": host}
            finally:
                _leave_no_network(host)
    finally:
        shutil.rmtree(runtime, ignore_errors=True)


REGISTRY_USER = "puller"
REGISTRY_PASSWORD = "only-for-tests-7d1f"
REGISTRY_USERS = f"{REGISTRY_USER}:$2y$05$iB0ktE8Vvw0iosrO63JZve99on5gTzdix8WPPNra8J2ZJ91yUc7QC\n"
_REGISTRY_CONFIG = """\
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "127.0.0.1:{port}", secret: only-for-tests}}
auth: {{htpasswd: {{realm: tests, path: {folder}/users}}}}
"""


@contextmanager
def registry(folder: Path) -> Iterator[dict[str, str]]:
    """An image registry that lets nobody in without a password; reached over plain HTTP."""
    if (binary := program("docker-registry")) is None:
        yield {}
        return
    port, own = free_port(), folder / "registry"
    own.mkdir(mode=0o700)
    (own / "users").write_text(REGISTRY_USERS)
    (own / "config.yml").write_text(_REGISTRY_CONFIG.format(folder=own, port=port))
    command = [binary, "serve", str(own / "config.yml")]
    with running(command, folder / "registry.log", ready=lambda: listens(port)):
        yield {"TEST_REGISTRY": f"127.0.0.1:{port}"}


def _leave_no_network(docker_host: str) -> None:
    """A network's bridge outlives its engine; some thirty of them use up the address pools."""
    docker = ["docker", "-H", docker_host]
    listed = subprocess.run([*docker, "ps", "-aq"], capture_output=True, text=True, check=False)
    if containers := listed.stdout.split():
        subprocess.run([*docker, "rm", "-f", *containers], capture_output=True, check=False)
    subprocess.run([*docker, "network", "prune", "-f"], capture_output=True, check=False)


def build_images(docker_host: str, images: Path) -> None:
    """Build the examples' images that the engine lacks."""
    environment = {**os.environ, "DOCKER_HOST": docker_host}
    listed = subprocess.run(
        [str(images / "build"), "--list"], check=True, capture_output=True, text=True
    )
    for image in listed.stdout.split():
        known = subprocess.run(
            ["docker", "image", "inspect", image], env=environment, capture_output=True, check=False
        )
        if known.returncode != 0:
            subprocess.run([str(images / "build"), image], env=environment, check=True)


@contextmanager
def running(
    command: list[str],
    log: Path,
    *,
    ready: Callable[[], bool],
    stop: signal.Signals = signal.SIGTERM,
    **owner: Any,
) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, cwd="/", **owner
        )
    try:
        _await(ready, process, log)
        yield
    finally:
        _end(process, stop)


def _await(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{process.args!r} did not start:\n{tail}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    """Signal the server itself; its session's leftovers are killed after 20 s."""
    if process.poll() is None:
        os.killpg(process.pid, stop)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def listens(port: int) -> bool:
    """Whether something on this machine accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _docker_answers(host: str) -> bool:
    if shutil.which("docker") is None or (
        host.startswith("unix://") and not Path(host[7:]).exists()
    ):
        return False
    command = ["docker", "-H", host, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0


def _open_parents(folder: Path) -> None:
    """The user postgres must be able to reach its folder: parents of ours get o+x."""
    for parent in (folder, *folder.parents):
        mode = parent.stat().st_mode
        if parent.owner() == "root" and not mode & 0o001 and parent != Path("/"):
            parent.chmod(mode | 0o001)
