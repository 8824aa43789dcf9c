"""The arguments of `mock serve`, apart from what serves: importing that takes time."""

from __future__ import annotations

import argparse
import ipaddress
from typing import Final

from surfaces.operation_rules import VALIDATE_MODES

DEFAULT_PORT: Final = 8095
_MAX_PORT: Final = 65535
HELP: Final = (
    "Serve the mocks of one suite on a port of their own: no store, no sign-in. "
    "The files are watched; an edit is in force within a second, and a file that it breaks "
    "keeps its last good version. Ctrl-C ends it."
)
EPILOG: Final = """\
examples:
  partita mock serve examples/oci-suites/shop
  partita mock serve shop                       a suite of SUITES_DIR
  partita mock serve openapi.yaml --port 9000   a contract alone
  partita mock serve shop --log                 show each call and its match
  partita mock serve shop -o json | jq .url

exit codes: 0 stopped, 1 the files break a rule, 2 usage, 3 not found, 5 the port is in use
"""


def parser_of(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description=HELP,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "suite", help="a suite's folder, a folder of contracts, a contract, or the id of a suite"
    )
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0: any free one"
    )
    parser.add_argument(
        "--grpc-port", type=_port, metavar="PORT", help="serve gRPC as well, with reflection"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; default 127.0.0.1, which only this machine reaches",
    )
    parser.add_argument(
        "--proxy-to",
        type=_network,
        action="append",
        default=[],
        metavar="CIDR",
        help="a private network that proxy fallbacks may reach, such as 127.0.0.1/32; repeatable",
    )
    parser.add_argument(
        "--validate",
        choices=VALIDATE_MODES,
        help="check calls against their contract, whatever the files say: not at all, with a "
        "header that says what is wrong, or answering 4xx; default warn",
    )
    parser.add_argument("--log", action="store_true", help="show each call with its match")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default text"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to {_MAX_PORT})")
    return int(text)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
