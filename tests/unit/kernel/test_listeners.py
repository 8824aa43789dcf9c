"""Connections of every listener answer at once, without the pause of delayed acknowledgments."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from kernel.listeners import bound_socket


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
async def test_a_connection_that_asyncio_accepts_has_no_delay(host: str):
    accepted: asyncio.Queue[int] = asyncio.Queue()

    async def look(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        await accepted.put(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(look, sock=bound_socket(host, 0)) as server:
        with socket.create_connection(("127.0.0.1", server.sockets[0].getsockname()[1])):
            assert await asyncio.wait_for(accepted.get(), 5)


def test_a_connection_has_no_delay_whatever_serves_it():
    with bound_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.proto == socket.IPPROTO_TCP  # asyncio looks at this
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_taken_port_is_an_error_that_says_so():
    with bound_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with pytest.raises(OSError, match=r".") as caught:
            bound_socket("127.0.0.1", listener.getsockname()[1])

    assert caught.value.errno == errno.EADDRINUSE
