"""The options of `run launch --ci`, apart from what they do, which other commands need not load."""

from __future__ import annotations

from typing import Any, Final

from partita_client.command.parser import seconds
from partita_client.errors import BadConfiguration

JUNIT: Final = "junit.xml"
ARTIFACTS: Final = "partita-artifacts.zip"


def add_ci_options(parser: Any) -> None:
    group = parser.add_argument_group("in a CI job")
    group.add_argument(
        "--ci",
        action="store_true",
        help="sign in with the job's own token, wait, report to the CI system; exit 0 healthy, "
        "1 your code, 2 usage, 3 could not find out",
    )
    group.add_argument("--junit", metavar="FILE", help=f"file for the results ({JUNIT})")
    group.add_argument(
        "--artifacts", metavar="FILE", help=f"file for the artifacts, empty: none ({ARTIFACTS})"
    )
    group.add_argument(
        "--suite-file", metavar="FILE", help="suite.star in the checkout, for annotations"
    )
    group.add_argument(
        "--audience", help="audience of the server's trust rule (the address of the server)"
    )
    group.add_argument(
        "--patience",
        type=seconds,
        metavar="TIME",
        help="how long a server that does not answer is waited for (5m)",
    )
    group.add_argument(
        "--commit-status", action="store_true", help="GitHub: a status of the commit"
    )
    group.add_argument(
        "--comment",
        action="store_true",
        help="one comment in the pull request of GitHub (GITHUB_TOKEN), one note in the merge "
        "request of GitLab (GITLAB_TOKEN)",
    )


def require_ci(options: Any) -> None:
    """Refuse the options of a CI job without `--ci`, and `--jq` with it; raise BadConfiguration."""
    if options.ci and options.jq is not None:
        raise BadConfiguration("--ci prints what its CI system reads: leave out --jq")
    texts = ("junit", "artifacts", "suite_file", "audience", "patience")
    given = [name for name in texts if getattr(options, name) is not None]
    given += [name for name in ("commit_status", "comment") if getattr(options, name)]
    if given and not options.ci:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BadConfiguration(f"{names}: for CI jobs alone", advice="add --ci")
