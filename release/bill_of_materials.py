"""The libraries that Partita runs on, as CycloneDX 1.6 in JSON.

`python -m release.bill_of_materials FILE` writes it (`make sbom`, Dockerfile).
The pins of requirements.txt give names, versions and hashes; what is installed gives licenses and
who needs what. A pin has the hash of each archive that it allows: pip has taken one of them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel.clock import now, rfc3339
from kernel.version import VERSION

REQUIREMENTS: Final = Path(__file__).resolve().parents[1] / "requirements.txt"
SPEC_VERSION: Final = "1.6"
_SCHEMA: Final = f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json"
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:pypi/partita")
_OWN_LICENSE: Final = "Apache-2.0"
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_MAX_LICENSE: Final = 100  # a longer text is the license itself, not its name
_LICENSE_CLASSIFIER: Final = "License :: "


class LibraryMissing(RuntimeError):
    """A pinned library is not installed here in its pinned version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedLibrary:
    """One library of requirements.txt that this platform needs, with the hashes of its archives."""

    name: str
    version: str
    hashes: Sequence[str]

    @property
    def purl(self) -> str:
        return package_url(self.name, self.version)


def package_url(name: str, version: str) -> str:
    """Return the package URL of a library of PyPI."""
    return f"pkg:pypi/{name}@{version.replace('+', '%2B')}"


def read_pins(text: str) -> list[PinnedLibrary]:
    """Return the pins of a file that uv wrote; not those whose marker excludes this platform."""
    lines = text.replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        wanted = Requirement(line.partition(" --hash=")[0])
        if wanted.marker is None or wanted.marker.evaluate():
            version = str(wanted.specifier).removeprefix("==")
            hashes = sorted(_HASH.findall(line))
            found.append(
                PinnedLibrary(name=canonicalize_name(wanted.name), version=version, hashes=hashes)
            )
    return found


def bill_of_materials(pins: Iterable[PinnedLibrary], *, made_at: str) -> Mapping[str, object]:
    """Return the document of Partita and the pinned libraries; raise LibraryMissing.

    `made_at` is RFC 3339. Two documents of the same libraries have the same serial number.
    """
    libraries = {pin.name: (pin, _find_distribution(pin)) for pin in pins}
    own = package_url("partita", VERSION)
    purls = {name: pin.purl for name, (pin, _) in libraries.items()}
    serial = uuid.uuid5(_NAMESPACE, " ".join([own, *purls.values()]))
    return {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": made_at,
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "partita",
                "version": VERSION,
                "purl": own,
                "licenses": [{"expression": _OWN_LICENSE}],
            },
        },
        "components": [_component(pin, found) for pin, found in libraries.values()],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(purls.values())},
            *(
                {"ref": pin.purl, "dependsOn": _needs(found, purls)}
                for pin, found in libraries.values()
            ),
        ],
    }


def _find_distribution(pin: PinnedLibrary) -> Distribution:
    try:
        found = distribution(pin.name)
    except PackageNotFoundError:
        raise LibraryMissing(f"{pin.name}=={pin.version} is not installed") from None
    if found.version != pin.version:
        raise LibraryMissing(f"{pin.name}=={pin.version} is pinned, {found.version} is installed")
    return found


def _component(pin: PinnedLibrary, found: Distribution) -> Mapping[str, object]:
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "licenses": licenses_of(found),
        "hashes": [{"alg": "SHA-256", "content": each} for each in pin.hashes],
    }


def licenses_of(found: Distribution) -> list[Mapping[str, object]]:
    """Return what a library says of its license: an SPDX expression, else names, else nothing."""
    if expression := _header(found, "License-Expression"):
        return [{"expression": expression}]
    classifiers = found.metadata.get_all("Classifier") or []
    names = [
        each.rpartition(" :: ")[2] for each in classifiers if each.startswith(_LICENSE_CLASSIFIER)
    ]
    stated = _header(found, "License").strip()
    if stated and "\n" not in stated and len(stated) <= _MAX_LICENSE:
        names = [stated]
    return [{"license": {"name": name}} for name in names]


def _header(found: Distribution, name: str) -> str:
    return next(iter(found.metadata.get_all(name) or ()), "")


def _needs(found: Distribution, purls: Mapping[str, str]) -> list[str]:
    """Return the package URLs of what a library needs here, its extras left out."""
    needed = set()
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            needed.add(canonicalize_name(wanted.name))
    return sorted(purls[name] for name in needed if name in purls)


def main() -> None:
    """Write the document into the file that is named."""
    parser = argparse.ArgumentParser(
        prog="python -m release.bill_of_materials", description=__doc__
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--requirements", type=Path, default=REQUIREMENTS)
    options = parser.parse_args()
    pins = read_pins(options.requirements.read_text(encoding="utf-8"))
    try:
        document = bill_of_materials(pins, made_at=rfc3339(now()))
    except LibraryMissing as error:
        sys.exit(f"error: {error}; `make install` installs what requirements.txt pins")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{options.file}: {len(pins)} libraries\n")


if __name__ == "__main__":
    main()
