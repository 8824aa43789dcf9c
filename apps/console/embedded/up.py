"""What `up` does, in order: listen, prepare the store, choose a runtime, serve, show the demo."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from typing import Final

from django.core.management import call_command
from django.db import DatabaseError, connection
from rich.console import Console

from apps.accounts import api as accounts
from apps.console import conf
from apps.console.embedded import demo, images, interrupts
from apps.console.embedded.background import CeleryThread
from apps.console.embedded.datafolder import remember
from apps.console.embedded.server import EmbeddedServer, PortTaken, listener
from apps.system.api import escape, exported_telemetry, store_unusable
from apps.workers import api as workers
from kernel.background import BackgroundThread

ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - looked for, not listened on


class Up:
    """One run of `up`; `run()` returns its exit code once everything has stopped."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.celery = CeleryThread()
        self.server = EmbeddedServer(on_started=self._serving)
        self.runner: workers.RunnerThread | None = None
        self.administrator: accounts.FirstAdministrator | None = None
        self.places: list[str] = []
        self._over = threading.Event()
        self._demo = BackgroundThread("demo", self._show_demo, ended=self._over)

    def run(self) -> int:
        """Raises PortTaken, PlatformError when the store is not usable."""
        sockets = [listener(conf.host(), conf.port())]
        self.console.print("[bold]Partita[/] starts", soft_wrap=True)
        prepare_store()
        self.administrator = accounts.first_administrator()
        runtime = self._chosen_runtime()
        if runtime == "docker":
            sockets += self._listeners_for_containers()
        self.places = [place_of(each) for each in sockets]
        remember(conf.listener_file(), port=conf.port(), url=conf.base_url(), runtime=runtime)
        self.runner = workers.RunnerThread(runtime=runtime)
        for number in interrupts.SIGNALS:
            signal.signal(number, lambda *_: self.server.ask_to_exit())
        with exported_telemetry():  # beyond the server's own end: the runner stops after it
            try:
                asyncio.run(self.server.serve(sockets=sockets))
            finally:
                self._stop()
        if not (self.server.started or self.server.should_exit):
            self._warn(f"it did not start: {conf.data_dir() / 'up.log'} says why")
        return 0 if self.server.started else 1

    def _chosen_runtime(self) -> str:
        chosen, why = workers.choose_local_runtime()
        if why:
            self._warn(why)
        conf.use_runtime(chosen)
        if chosen == "docker":
            try:
                images.ensure(demo.images(), conf.image_builder(), self._say)
            except images.ImageMissing as missing:
                self._warn(f"not every example can run: {missing}")
        return chosen

    def _listeners_for_containers(self) -> list[socket.socket]:
        """On the engine's bridge, unless HOST opens every address anyway."""
        bridge = workers.container_bridge()
        if not bridge or conf.host() in (bridge, *ANY_ADDRESS):
            return []
        try:
            return [listener(bridge, conf.port())]
        except PortTaken as error:
            self._warn(f"containers cannot reach this server: {error}")
            return []

    def _serving(self) -> None:
        """In the server's loop, once requests are answered."""
        interrupts.announce(self._say, at_once=self._let_go)
        self.celery.start()
        if self.runner is not None:
            self.runner.start()
        self._greet()
        if not conf.launches_demo():
            self._say(f"launch a suite: {demo.launch_command()}")
        elif demo.is_there():
            self._demo.start()
        else:
            self._say(f"there is no suite {demo.SUITE} here: launch one: {demo.launch_command()}")

    def _greet(self) -> None:
        self.console.print(f"[green]✓[/] serving on [bold]{conf.base_url()}[/]", soft_wrap=True)
        self._say(f"listening on {' and '.join(self.places)}")
        if conf.host() in ANY_ADDRESS:
            self._warn(f"HOST={conf.host()}: every network of this machine reaches this server")
        self._say_who_signs_in()
        self._say(
            f"data and log (up.log) in {conf.data_dir()}; Ctrl-C stops it, the next start goes on"
        )

    def _say_who_signs_in(self) -> None:
        who = self.administrator
        if who is None:
            self._warn("there is no administrator: set ADMIN_EMAIL and ADMIN_PASSWORD, start again")
        elif not conf.offers_password():
            self._say("sign-in by password is off (AUTH_PASSWORD_LOGIN_ENABLED)")
        elif who.created and who.password_matches and conf.password_origin() == "new":
            self.console.print(f"  sign in as [bold]{escape(who.email)}[/] with", end=" ")
            self.console.print(who.password, style="bold", markup=False)
            self._say(f"shown this once; it stays in {conf.secrets_file()}")
        else:
            self.console.print(f"  sign in as [bold]{escape(who.email)}[/]", end=" ")
            self.console.print(password_hint(who), style="dim", markup=False, soft_wrap=True)

    def _show_demo(self) -> None:
        demo.show(self.console, stop=self._over)

    def _stop(self) -> None:
        self._over.set()
        if self._demo.is_alive():
            self._demo.join(5)
        if self.runner is not None and self.server.started:
            self.runner.stop()
            self.celery.stop()
        for sentence in demo.left_running():
            self._say(sentence)
        self.console.print("stopped", soft_wrap=True)

    def _let_go(self) -> None:
        self.console.show_cursor()
        self._say("stopped at once; steps that run are found again by the next `up`")

    def _say(self, sentence: str) -> None:
        self.console.print(f"  {sentence}", style="dim", markup=False, soft_wrap=True)

    def _warn(self, sentence: str) -> None:
        self.console.print("[yellow]![/]", end=" ")
        self.console.print(sentence, markup=False, soft_wrap=True)


def place_of(listening: socket.socket) -> str:
    """As in `127.0.0.1:8090` and `[::1]:8090`."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def password_hint(who: accounts.FirstAdministrator) -> str:
    """Where the password is to be found; it is not printed: somebody gave it, or saw it before."""
    if not who.password_matches:
        return "with the account's own password"
    if conf.password_origin() == "given":
        return "with the password in ADMIN_PASSWORD"
    return f"with the password in {conf.secrets_file()}"


def prepare_store() -> None:
    """Reach the store and bring its tables up to date. Raises PlatformError."""
    try:
        probe = connection.copy()  # without a pool: that says later and less clearly what is wrong
        probe.settings_dict["OPTIONS"].pop("pool", None)
        probe.ensure_connection()
        probe.close()
        call_command("migrate", verbosity=0, interactive=False)
    except _store_errors() as error:
        raise store_unusable(error, "start it, or name another") from None


def _store_errors() -> tuple[type[Exception], ...]:
    if connection.vendor == "mongodb":
        from pymongo.errors import PyMongoError  # those of its connecting nobody translates

        return (DatabaseError, PyMongoError)
    return (DatabaseError,)
