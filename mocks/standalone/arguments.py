"""The arguments of `mock serve`, apart from what serves: importing that takes time."""

from __future__ import annotations

import argparse
import ipaddress
from pathlib import Path
from typing import Final

from kernel.version import VERSION
from surfaces.operation_rules import VALIDATE_MODES

DEFAULT_PORT: Final = 8095
_MAX_PORT: Final = 65535
HELP: Final = (
    "Serve the mocks of one suite on a port of their own: no store, no sign-in. "
    "The files are watched; an edit is in force within a second, and a file that it breaks "
    "keeps its last good version. Ctrl-C ends it."
)
_EPILOG: Final = """\
examples:
  {0} openapi.yaml                    a contract alone
  {0} examples/oci-suites/shop        a suite, or any folder of contracts
  {0} openapi.yaml --port 9000 --log  show each call and its match
  {0} openapi.yaml --https-port 8443  https as well, with a certificate made here
  {0} openapi.yaml -o json | jq .url

exit codes: 0 stopped, 1 the files break a rule, 2 usage, 3 not found, 5 the port is in use
"""


def parser_of(program: str, *, takes_ids: bool = True) -> argparse.ArgumentParser:
    """Return the parser of a program; one that `takes_ids` finds suites by their ids, too."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=HELP,
        epilog=epilog_of(program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"{program.partition(' ')[0]} {VERSION}"
    parser.add_argument("--version", action="version", version=version)
    add_arguments(parser, takes_ids=takes_ids)
    return parser


def epilog_of(program: str) -> str:
    return _EPILOG.format(program)


def add_arguments(parser: argparse.ArgumentParser, *, takes_ids: bool = True) -> None:
    what = "a contract, a folder of contracts, or a suite's folder"
    parser.add_argument(
        "suite", metavar="PATH", help=f"{what}, or the id of a suite" if takes_ids else what
    )
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0: any free one"
    )
    parser.add_argument(
        "--grpc-port", type=_port, metavar="PORT", help="serve gRPC as well, with reflection"
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="encrypt: --port is https, --grpc-port gRPC with TLS; HTTP/2 where a client can",
    )
    parser.add_argument(
        "--https-port", type=_port, metavar="PORT", help="https on this port, http on --port"
    )
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="the certificate in PEM, with those that signed it; otherwise one is made and kept",
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key in PEM")
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
