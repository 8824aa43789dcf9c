"""What `up` does, in order: listen, prepare the store, choose a runtime, serve, show the demo."""

from __future__ import annotations

import asyncio
import signal
import threading

from django.core.management import call_command
from django.db import DatabaseError, connection
from rich.console import Console

from apps.accounts import api as accounts
from apps.console import conf
from apps.console.embedded import demo, images, interrupts
from apps.console.embedded.background import CeleryThread
from apps.console.embedded.datafolder import remember
from apps.console.embedded.server import EmbeddedServer, listeners
from apps.system.api import exported_telemetry, store_unusable
from apps.workers import api as workers


class Up:
    """One run of `up`; `run()` returns its exit code once everything has stopped."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.celery = CeleryThread()
        self.server = EmbeddedServer(on_started=self._serving)
        self.runner: workers.RunnerThread | None = None
        self._over = threading.Event()
        self._demo = threading.Thread(target=self._show_demo, name="demo", daemon=True)

    def run(self) -> int:
        """Raises PortTaken, PlatformError when the store is not usable."""
        sockets = listeners(conf.host(), conf.port(), workers.container_bridges())
        self.console.print("[bold]Partita[/] starts", soft_wrap=True)
        prepare_store()
        runtime = self._chosen_runtime()
        remember(conf.listener_file(), port=conf.port(), url=conf.base_url(), runtime=runtime)
        self.runner = workers.RunnerThread(runtime=runtime)
        for number in interrupts.SIGNALS:
            signal.signal(number, lambda *_: self.server.ask_to_exit())
        with exported_telemetry():  # beyond the server's own end: the runner stops after it
            try:
                asyncio.run(self.server.serve(sockets=sockets))
            finally:
                self._stop()
        return 0 if self.server.started else 1

    def _chosen_runtime(self) -> str:
        chosen, why = workers.choose_local_runtime()
        if why:
            self._warn(why)
        conf.use_runtime(chosen)
        if chosen == "docker" and conf.demo_suite():
            try:
                images.ensure(demo.images(), conf.image_builder(), self._say)
            except images.ImageMissing as missing:
                self._warn(f"not every example can run: {missing}")
        return chosen

    def _serving(self) -> None:
        """In the server's loop, once requests are answered."""
        interrupts.announce(self._say, at_once=self._let_go)
        self.celery.start()
        if self.runner is not None:
            self.runner.start()
        self._greet()
        if conf.demo_suite():
            self._demo.start()

    def _greet(self) -> None:
        email, password = accounts.seed_admin_credentials()
        self.console.print(f"[green]✓[/] serving on [bold]{conf.base_url()}[/]", soft_wrap=True)
        self.console.print("  sign in as ", end="")
        self.console.print(email, style="bold", markup=False, end="")
        self.console.print(" with ", end="")
        self.console.print(password, style="bold", markup=False)
        self._say(f"data and log (up.log) in {conf.data_dir()}; Ctrl-C stops everything")

    def _show_demo(self) -> None:
        demo.show(conf.demo_suite(), self.console, stop=self._over)

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
