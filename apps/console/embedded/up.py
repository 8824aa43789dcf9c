"""`up`: listen, prepare the store, choose a runtime, serve, show the demo."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from django.core.management import call_command
from django.db import DatabaseError, connection
from rich.console import Console

from apps.accounts import api as accounts
from apps.console import conf
from apps.console.embedded import demo, local_sign_in
from apps.console.embedded.server import (
    SIGNALS,
    AddressTaken,
    CeleryThread,
    EmbeddedServer,
    announce_signals,
    listener,
)
from apps.http.api import public_url
from apps.observability.api import exported_telemetry
from apps.operations.api import escape, require_whole_store, store_unusable
from apps.workers import api as workers
from kernel.background import BackgroundThread

ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - looked for, not listened on


class FolderInUse(RuntimeError):
    """Another `up` uses the data folder; the message names its process."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold `<folder>/up.lock`, which ends with the process; raise FolderInUse."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise FolderInUse(
                f"another `up` (process {owner}) uses {folder}: stop it, or name another folder "
                f"and port: DATA_DIR=/path PORT=8190 {conf.start_command()}"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


class Up:
    """One run of `up`; `run()` returns its exit code once everything has stopped."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.celery: CeleryThread | None = None  # it loads what `run` may never need
        self.server = EmbeddedServer(on_started=self._serving)
        self.runner: workers.RunnerThread | None = None
        self.administrator: accounts.FirstAdministrator | None = None
        self.addresses: list[str] = []
        self.hint = ""
        self._over = threading.Event()
        show = partial(demo.show, self.console, stop=self._over)
        self._demo = BackgroundThread("demo", show, ended=self._over)

    def run(self) -> int:
        """Serve until a signal; raise AddressTaken, and PlatformError if the store is unusable."""
        sockets = [listener(conf.host(), conf.port())]
        self.console.print("[bold]Partita[/] starts", soft_wrap=True)
        prepare_store()
        self.administrator = accounts.first_administrator()
        runtime = self._choose_runtime()
        if workers.runtimes[runtime].runs_images:
            sockets += self._listeners_for_containers()
        self.addresses = [address_of(each) for each in sockets]
        self.celery = CeleryThread()
        self._write_listener_file(runtime)
        self._write_token_file()
        self.hint = (
            self._hint_without_demo()
        )  # here, as nothing in the event loop may ask the store
        self.runner = workers.RunnerThread(runtime=runtime)
        for number in SIGNALS:
            signal.signal(number, lambda *_: self.server.ask_to_exit())
        with exported_telemetry():  # until the runner has stopped, after the server
            try:
                asyncio.run(self.server.serve(sockets=sockets))
            finally:
                self._stop()
        if not (self.server.started or self.server.should_exit):
            self._warn(f"the server did not start: see {conf.data_dir() / 'up.log'}")
        return 0 if self.server.started else 1

    def _write_listener_file(self, runtime: str) -> None:
        """Write the addresses and the runtime for other commands on this data folder."""
        file = conf.listener_file()
        new = file.with_suffix(".new")
        lines = f"PORT={conf.port()}\nPUBLIC_API_URL={public_url()}\nLOCAL_RUNTIME={runtime}\n"
        new.write_text(lines, encoding="utf-8")
        new.replace(file)

    def _write_token_file(self) -> None:
        email = self.administrator.email if self.administrator else ""
        if warning := local_sign_in.write_token_file(
            conf.data_dir(), email, host=conf.host(), port=conf.port(), pages=public_url()
        ):
            self._warn(warning)

    def _choose_runtime(self) -> str:
        chosen, why = workers.choose_local_runtime()
        if why:
            self._warn(why)
        conf.use_runtime(chosen)
        # the image of Partita has no builder: its engine pulls what a run needs
        if workers.runtimes[chosen].runs_images and conf.image_builder().exists():
            try:
                demo.ensure_images(demo.images(), conf.image_builder(), self._say)
            except demo.ExampleImageMissing as missing:
                self._warn(f"some examples cannot run: {missing}")
        return chosen

    def _listeners_for_containers(self) -> list[socket.socket]:
        """Listen on the engine's bridge for calls of mocks, unless HOST includes it."""
        bridge = workers.container_bridge()
        if not bridge or conf.host() in (bridge, *ANY_ADDRESS):
            return []
        try:
            bound = [listener(bridge, conf.port())]
        except AddressTaken as error:
            self._warn(f"containers cannot reach the mocks: {error}")
            return []
        self.server.serve_mocks_alone_at(bridge)
        return bound

    def _serving(self) -> None:
        """Start the rest, in the server's loop, once it serves requests."""
        announce_signals(self._say, at_once=self._on_second_signal)
        for part in (self.celery, self.runner):
            if part is not None:
                part.start()
        self._greet()
        if self.hint:
            self._say(self.hint)
        else:
            self._demo.start()

    def _hint_without_demo(self) -> str:
        """Return what to launch if the example suite is not, else ""."""
        if not conf.launches_demo() or (conf.project() and not demo.is_installed()):
            return f"launch a suite: {demo.launch_command()}"
        if demo.is_installed():
            return ""
        return f"the suite {demo.SUITE} is not installed; launch another: {demo.launch_command()}"

    def _greet(self) -> None:
        self.console.print(f"[green]✓[/] serving on [bold]{public_url()}[/]", soft_wrap=True)
        self._say(f"listening on {' and '.join(self.addresses)}")
        if conf.host() in ANY_ADDRESS:
            self._warn(f"HOST={conf.host()}: every network of this machine reaches this server")
        if own := conf.project():
            self._say(f"suites of {own.name} in {conf.suites_dir()}, by {own.path.name}")
        self._show_administrator()
        self._say(
            f"data and log (up.log) in {conf.data_dir()}; Ctrl-C stops it, the next start continues"
        )

    def _show_administrator(self) -> None:
        who = self.administrator
        if who is None:
            self._warn(
                "there is no administrator: set ADMIN_EMAIL and ADMIN_PASSWORD and start again"
            )
        elif not accounts.password_sign_in_enabled():
            self._say("sign-in by password is off (AUTH_PASSWORD_LOGIN_ENABLED)")
        elif who.created and who.password_matches and conf.password_origin() == "new":
            self.console.print(f"  sign in as [bold]{escape(who.email)}[/] with", end=" ")
            self.console.print(who.password, style="bold", markup=False)
            self._say(f"shown only once; it is kept in {conf.secrets_file()}")
        else:
            self.console.print(f"  sign in as [bold]{escape(who.email)}[/]", end=" ")
            self.console.print(password_hint(who), style="dim", markup=False, soft_wrap=True)

    def _stop(self) -> None:
        self._over.set()
        if self._demo.is_alive():
            self._demo.join(5)
        if self.runner is not None and self.celery is not None and self.server.started:
            self.runner.stop()
            self.celery.stop()
        for sentence in demo.left_running():
            self._say(sentence)
        self.console.print("stopped", soft_wrap=True)

    def _on_second_signal(self) -> None:
        self.console.show_cursor()
        self._say("stopped at once; the next `up` continues the running steps")

    def _say(self, sentence: str) -> None:
        self.console.print(f"  {sentence}", style="dim", markup=False, soft_wrap=True)

    def _warn(self, sentence: str) -> None:
        self.console.print("[yellow]![/]", end=" ")
        self.console.print(sentence, markup=False, soft_wrap=True)


def address_of(listening: socket.socket) -> str:
    """Return the address as `127.0.0.1:8090` or `[::1]:8090`."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def password_hint(who: accounts.FirstAdministrator) -> str:
    """Return where to find the password, which is printed only once."""
    if not who.password_matches:
        return "with the account's own password"
    if conf.password_origin() == "given":
        return "with the password in ADMIN_PASSWORD"
    return f"with the password in {conf.secrets_file()}"


def prepare_store() -> None:
    """Connect to the store and migrate it; raise PlatformError."""
    try:
        probe = connection.copy()  # without a pool, whose errors come later and say less
        probe.settings_dict["OPTIONS"].pop("pool", None)
        probe.ensure_connection()
        probe.close()
        call_command("migrate", verbosity=0, interactive=False)
        require_whole_store()
    except _store_errors() as error:
        raise store_unusable(error, "start it, or name another") from None


def _store_errors() -> tuple[type[Exception], ...]:
    if connection.vendor == "mongodb":
        from pymongo.errors import PyMongoError  # Django does not translate its connection errors

        return (DatabaseError, PyMongoError)
    return (DatabaseError,)
