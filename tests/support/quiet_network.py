"""A network for Chromium alone, in which no interface ever comes or goes.

Chromium drops every request under way when an interface of its network changes
(ERR_NETWORK_CHANGED), and each container that starts brings one. So the browser gets a network
namespace with nothing but a loopback interface, and a SOCKS proxy in it that leads to the
loopback of the machine. That takes root on Linux; without, the browser stays in our network.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CLONE_NEWNET: Final = 0x40000000
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 0x1
PATIENCE_S: Final = 10
# SOCKS 5, RFC 1928: "no authentication", and "succeeded" with an address that nobody reads
GREETED: Final = b"\x05\x00"
CONNECTED: Final = b"\x05\x00\x00\x01" + bytes(6)
REFUSED: Final = b"\x05\x05\x00\x01" + bytes(6)


@contextmanager
def quiet_network(folder: Path, program: str) -> Iterator[tuple[str, list[str]]]:
    """The command that starts `program` in the quiet network, and its further arguments."""
    if os.geteuid() != 0 or shutil.which("nsenter") is None:
        yield program, []
        return
    with _Network() as network:
        command = folder / Path(program).name
        command.write_text(f'#!/bin/sh\nexec nsenter --net={network.path} {program} "$@"\n')
        command.chmod(0o755)
        proxy = f"--proxy-server=socks5://127.0.0.1:{network.port}"
        yield str(command), [proxy, "--proxy-bypass-list=<-loopback>"]


class _Network:
    """Lives as long as the thread that entered it; another thread serves its proxy."""

    def __init__(self) -> None:
        self._entered, self._over = threading.Event(), threading.Event()
        self._inside = threading.Thread(target=self._enter, name="quiet-network", daemon=True)
        self._serving = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="quiet-proxy", daemon=True
        )

    def __enter__(self) -> _Network:
        self._inside.start()
        if not self._entered.wait(PATIENCE_S):
            raise OSError("no network namespace could be made; see the thread's traceback")
        self._serving.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in (self._serving, self._inside):
            thread.join(PATIENCE_S)

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/task/{self._inside.native_id}/ns/net"

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        _up("lo")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._entered.set()
        self._over.wait()

    async def _serve(self) -> None:
        async with await asyncio.start_server(_lead, sock=self._listener):
            await asyncio.to_thread(self._over.wait)


def _up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, SIOCSIFFLAGS, struct.pack("16sh", interface.encode(), IFF_UP))


async def _lead(browser: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
    """One connection: to that port of the machine's loopback, whatever host was asked for."""
    try:
        port = await _asked_port(browser, answer)
        server, request = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        answer.write(REFUSED)
        answer.close()
        return
    except asyncio.IncompleteReadError:
        answer.close()
        return
    answer.write(CONNECTED)
    await asyncio.gather(_pump(browser, request), _pump(server, answer))


async def _asked_port(browser: asyncio.StreamReader, answer: asyncio.StreamWriter) -> int:
    _version, methods = await browser.readexactly(2)
    await browser.readexactly(methods)
    answer.write(GREETED)
    _version, _command, _reserved, kind = await browser.readexactly(4)
    length = {1: 4, 4: 16}.get(kind) or (await browser.readexactly(1))[0]
    await browser.readexactly(length)
    return int.from_bytes(await browser.readexactly(2), "big")


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while part := await source.read(65_536):
            target.write(part)
            await target.drain()
    except ConnectionError:
        pass  # the other side left: so do we
    finally:
        target.close()
