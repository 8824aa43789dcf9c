"""`python -m bench.runner`: the runner of BENCH_RUNTIME beside the store, see `bench.launching`."""

from __future__ import annotations

import importlib

import django


def main() -> None:
    django.setup()
    importlib.import_module("bench.noop_runtime")  # registers itself
    importlib.import_module("bench.launching").serve()


if __name__ == "__main__":
    main()
