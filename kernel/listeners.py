"""The sockets that servers of this project listen on."""

from __future__ import annotations

import socket


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a bound TCP socket that does not listen yet. Raises OSError.

    An empty `host` stands for all interfaces, of both families where the machine has both; port 0
    for any free port. Its connections answer at once: `socket.socket()` leaves the protocol at 0,
    which asyncio takes for something else than TCP, and then an answer in two pieces waits 40 ms
    for the peer's delayed acknowledgment (Nagle's algorithm).
    """
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    address = socket.getaddrinfo(
        host or None, port, family, socket.SOCK_STREAM, socket.IPPROTO_TCP, socket.AI_PASSIVE
    )[0][4]
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not both))
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
