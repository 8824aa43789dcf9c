"""`partita init`: a suite in one's own repository."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from apps.operations.api import CommandOptions, ExitCode, PlatformCommand, print_json
from apps.suites.authoring import repository, suite_files
from kernel.commands import add_output


class Command(PlatformCommand):
    help = (
        "Write a first suite into your own repository: partita.toml, which says where the suites "
        "are, suites/NAME with a suite that works, and a line of .gitignore for the data of `up`. "
        "Nothing is overwritten."
    )
    examples = """\
  partita init                       in the current folder
  partita init shop --template web   in a new folder
  partita init --name checkout"""

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "folder", nargs="?", default=".", help="of the repository (default: this folder)"
        )
        parser.add_argument(
            "--template", choices=suite_files.starters(), default="empty", help="default: empty"
        )
        parser.add_argument("--name", default="", help="of the suite (default: the folder's name)")
        add_output(parser)

    def execute_command(self, options: CommandOptions) -> int:
        made = repository.init_repository(
            Path(options["folder"]), template=options["template"], name=options["name"]
        )
        if made.left_out:
            self.stderr.write(made.left_out)
        if options["output"] == "json":
            print_json(
                {
                    "folder": str(made.folder),
                    "suite": made.suite_id,
                    "template": options["template"],
                    "files": list(made.files),
                }
            )
        else:
            self.print_next(made)
        return ExitCode.OK

    def print_next(self, made: repository.NewRepository) -> None:
        files = ", ".join(each for each in made.files if "/" not in each)
        count = sum("/" in each for each in made.files)
        suite = made.suite.relative_to(made.folder)
        lines = [f"wrote {files} and {suite} ({count} files); next:"]
        if made.folder.resolve() != Path.cwd():
            lines.append(f"  cd {shlex.quote(str(made.folder))}")
        lines += [
            f"  partita suite lint {made.suite_id}",
            "  partita up                              in a terminal of its own",
            f"  partita run launch {made.suite_id} --watch",
        ]
        self.stdout.write("\n".join(lines))
