"""`partita check_cluster`: what a Kubernetes cluster lacks for running steps."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apps.operations.api import ExitCode, VerbCommand, print_json, print_table
from apps.workers.cluster_checks import (
    CheckTarget,
    ClusterReport,
    check_targets,
    targets_of_backends,
)
from kernel.commands import OUTPUT_HELP, OUTPUTS
from worker.domain.cluster_options import ClusterOptions
from worker.runtimes.kubernetes.cluster_check import Check

Options = Mapping[str, Any]
EXIT_CODES: Final = """\
exit codes: 0 nothing is missing, 1 something is, 2 usage, 3 no such backend,
  6 a cluster or the store cannot be reached"""


class Command(VerbCommand):
    help = (
        "Check what the clusters of the backends of type kubernetes lack for running steps: "
        "access, rights, namespace, Pod Security, quotas and limits, shared claim, images. "
        "Nothing is changed; only --pull starts a pod, and removes it."
    )
    examples = """\
  partita check_cluster                                        all backends of type kubernetes
  partita check_cluster --backend cluster -o json
  partita check_cluster --kubeconfig ~/.kube/config --context test --namespace partita
  partita check_cluster --in-cluster --claim partita-shared    as this pod's service account
  partita check_cluster --backend cluster --pull busybox:1.36"""
    exit_codes = EXIT_CODES

    def add_arguments(self, parser: Any) -> None:
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--backend", default="", metavar="ID", help="only this backend")
        where.add_argument("--kubeconfig", default="", metavar="FILE", help="a cluster of a file")
        where.add_argument(
            "--in-cluster", action="store_true", help="the cluster of this pod, as its account"
        )
        parser.add_argument("--context", default="", help="of the kubeconfig; else its current one")
        parser.add_argument("--namespace", default="", help="of the steps; else the context's")
        parser.add_argument("--claim", default="", help="the claim for files that steps share")
        parser.add_argument(
            "--pull",
            action="append",
            default=[],
            metavar="IMAGE",
            help="start a pod of this image, without credentials of the settings' registries",
        )
        parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help=OUTPUT_HELP)
        parser.set_defaults(verb=check)


def check(options: Options) -> int:
    reports = check_targets(_targets(options), pulls=options["pull"])
    if options["output"] == "json":
        print_json({"clusters": [_document(each) for each in reports]})
    else:
        for number, report in enumerate(reports):
            _print(report, is_first=not number)
    if not all(each.was_reached for each in reports):
        return ExitCode.UNAVAILABLE
    return ExitCode.ERROR if any(each.lacks_something for each in reports) else ExitCode.OK


def _targets(options: Options) -> Sequence[CheckTarget]:
    if not (options["kubeconfig"] or options["in_cluster"]):
        return targets_of_backends(options["backend"])
    cluster = ClusterOptions(
        kubeconfig=options["kubeconfig"],
        context=options["context"],
        namespace=options["namespace"],
        claim=options["claim"],
    )
    return [CheckTarget(cluster=cluster)]


def _document(report: ClusterReport) -> dict[str, object]:
    return {
        "backend": report.target.backend,
        "reached": report.was_reached,
        "ready": report.was_reached and not report.lacks_something,
        "checks": [
            {
                "name": each.name,
                "state": each.state,
                "subject": each.subject,
                "detail": each.detail,
            }
            for each in report.checks
        ],
    }


def _print(report: ClusterReport, *, is_first: bool) -> None:
    if report.target.backend:
        sys.stdout.write(f"{'' if is_first else chr(10)}backend {report.target.backend}\n")
    print_table(("STATE", "CHECK", "SUBJECT", "DETAIL"), [_row(each) for each in _lines(report)])


def _lines(report: ClusterReport) -> list[Check]:
    """Return a line for each check, but one for all rights that the account has."""
    rights = [each for each in report.checks if each.name == "right"]
    granted = [each for each in rights if each.state == "ok"]
    lines = [each for each in report.checks if each not in granted]
    if granted:
        first = report.checks.index(granted[0])
        place = sum(each not in granted for each in report.checks[:first])
        summary = f"{len(granted)} of {len(rights)}"
        lines.insert(place, Check(name="rights", state="ok", subject=summary))
    return lines


def _row(check: Check) -> tuple[str, ...]:
    return check.state, check.name, check.subject, check.detail
