"""What is wrong in a file of a suite without making it unusable: an entry of `warnings[]`."""

from __future__ import annotations

from kernel.errors import FileWarning


class PackageWarning(FileWarning):
    """An entry of a suite's `warnings[]`."""

    __slots__ = ()
