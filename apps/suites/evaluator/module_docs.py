"""What the built-in modules offer, read from their text: functions, signatures, docstrings."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from apps.suites.evaluator.module_loader import BUILT_IN_MODULES, MODULES


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionInfo:
    """A function of a module; `signature` has its name, `doc` is Markdown."""

    name: str
    signature: str
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleInfo:
    """A built-in module; `load` is the line that makes its functions available."""

    name: str
    title: str
    description: str
    load: str
    functions: tuple[FunctionInfo, ...]


@functools.cache
def built_in_modules() -> tuple[ModuleInfo, ...]:
    """Return the built-in modules by name."""
    return tuple(_module(name) for name in BUILT_IN_MODULES)


def _module(name: str) -> ModuleInfo:
    # Modules of ours keep to the part of Starlark that is Python too, which a test checks.
    tree = ast.parse(MODULES.joinpath(f"{name}.star").read_text(encoding="utf-8"))
    title, _, description = (ast.get_docstring(tree) or name).partition("\n")
    constants = _constants(tree)
    functions = tuple(
        FunctionInfo(
            name=each.name,
            signature=_signature(each, constants),
            doc=ast.get_docstring(each) or "",
        )
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
    )
    names = ", ".join(f'"{each.name}"' for each in functions)
    return ModuleInfo(
        name=name,
        title=title,
        description=" ".join(description.split()),
        load=f'load("@partita/{name}", {names})',
        functions=functions,
    )


def _signature(function: ast.FunctionDef, constants: Mapping[str, ast.expr]) -> str:
    """Return the signature as suites write it, with the values of constants."""
    arguments = copy.deepcopy(function.args)
    arguments.defaults = [
        constants.get(each.id, each) if isinstance(each, ast.Name) else each
        for each in arguments.defaults
    ]
    return f"{function.name}({ast.unparse(arguments)})".replace("'", '"')


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: each.value
        for each in tree.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
