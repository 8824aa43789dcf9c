"""What the shop's steps share: numbered output, a Redis client of forty lines, JUnit reports."""

import os
import socket
import sys
import time
from xml.sax.saxutils import quoteattr

PACE = float(os.environ.get("PACE", "0"))
WORKSPACE = os.environ["PARTITA_WORKSPACE_DIR"]
ARTIFACTS = os.environ["PARTITA_ARTIFACTS_DIR"]


def work(lines, text):
    """Print numbered lines, one each PACE seconds."""
    for number in range(1, lines + 1):
        print(f"{number}/{lines} {text}", flush=True)
        time.sleep(PACE)


class Store:
    """Redis over its text protocol (RESP 2): `Store().call("SET", key, value)`."""

    def __init__(self):
        self.socket = socket.create_connection((os.environ.get("STORE_HOST", "store"), 6379), timeout=10)
        self.reader = self.socket.makefile("rb")

    def call(self, *words):
        parts = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
        self.socket.sendall(request)
        return self._answer()

    def _answer(self):
        line = self.reader.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            sys.exit(f"the store refused: {rest.decode()}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.reader.read(size + 2)[:-2].decode()
        if kind == b"*":
            return [self._answer() for _ in range(int(rest))]
        return rest.decode()


def report(suite, cases):
    """Run the cases (functions), print a line each, write report.xml, exit 1 when one failed."""
    entries, failed = [], 0
    for case in cases:
        begun = time.monotonic()
        try:
            case()
            problem = None
        except AssertionError as error:
            problem, failed = str(error) or "assertion failed", failed + 1
        seconds = time.monotonic() - begun
        print(f"{'FAIL' if problem else 'ok  '} {case.__name__} ({seconds * 1000:.0f} ms)", flush=True)
        body = f"<failure message={quoteattr(problem)}/>" if problem else ""
        entries.append(f'<testcase classname="{suite}" name="{case.__name__}" time="{seconds:.3f}">{body}</testcase>')
    with open(os.path.join(ARTIFACTS, "report.xml"), "w", encoding="utf-8") as file:
        file.write(f'<testsuite name="{suite}" tests="{len(cases)}" failures="{failed}">' + "".join(entries) + "</testsuite>")
    sys.exit(1 if failed else 0)
