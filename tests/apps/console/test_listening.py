"""Where `up` cannot listen it says what to do, and that works."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from apps.console.embedded.server import AddressTaken, listen, listener


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on, and so is the one after it."""
    with ExitStack() as stack:
        for first in range(20_000, 30_000, 7):
            try:
                pair = [socket.create_server(("127.0.0.1", first + more)) for more in (0, 1)]
            except OSError:
                continue
            for each in pair:
                stack.enter_context(each)
            yield first
            return


def test_the_hint_about_a_taken_port_names_one_that_is_free(taken: int):
    with pytest.raises(AddressTaken) as caught:
        listener("127.0.0.1", taken)

    hint = re.search(r"PORT=(\d+) make up$", str(caught.value))
    assert hint, str(caught.value)
    assert int(hint[1]) > taken + 1
    listener("127.0.0.1", int(hint[1])).close()


def test_an_address_of_another_machine_is_said_to_be_one():
    with pytest.raises(AddressTaken, match=r"HOST=127\.0\.0\.1 make up"):
        listener("192.0.2.1", 8090)


def test_of_two_that_start_at_once_the_second_is_told_as_any_other():
    """Both bind the address while neither listens yet."""
    with listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listener("127.0.0.1", port) as second:
            listen(first)
            with pytest.raises(AddressTaken, match=rf"127\.0\.0\.1:{port} .*PORT=\d+ make up"):
                listen(second)
