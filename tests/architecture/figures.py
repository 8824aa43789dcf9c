"""Figures of the tree that may only fall: `make check` compares them with [tool.partita.figures].

python -m tests.architecture.figures            print each figure and its limit
python -m tests.architecture.figures --where    and every place that counts
python -m tests.architecture.figures --lower    write lower limits into pyproject.toml; raises none

A figure counts places that are worth a look when the code around them changes. To raise a limit,
edit pyproject.toml by hand and say why beside the value.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.architecture.sources import PACKAGES, ROOT, modules

PYPROJECT: Final = ROOT / "pyproject.toml"
IRREGULAR: Final = frozenset(
    re.findall(
        r"\w+",
        """told said made held found kept shown known given built sent written taken left lost drawn
        seen met begun bound bought brought caught chosen done driven gone grown heard hidden laid
        led lent paid sold spent stood taught thought thrown understood won worn wound broken""",
    )
)
NO_PARTICIPLE: Final = frozenset(
    ("need", "feed", "embed", "speed", "proceed", "exceed", "succeed", "shed", "seed")
)
NOUNS_IN_ING: Final = r"(naming|routing|logging|pricing|string)\.py$"
NO_TYPES_OF_OURS: Final = ("Meta", "Command", "Migration")  # Django gives these names
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedModule:
    """A module that people write: its text, and the nodes that the figures look at."""

    path: str
    text: str
    top_classes: tuple[ast.ClassDef, ...]
    classes: tuple[ast.ClassDef, ...]
    functions: tuple[Function, ...]
    imports: tuple[ast.ImportFrom, ...]


@cache
def parsed_modules() -> tuple[ParsedModule, ...]:
    """Return every module except generated ones; each is parsed and walked once."""
    return tuple(parse(path, text) for path, text in modules() if "/gen/" not in path)


def parse(path: str, text: str) -> ParsedModule:
    tree = ast.parse(text, path)
    nodes = list(ast.walk(tree))
    return ParsedModule(
        path=path,
        text=text,
        top_classes=tuple(node for node in tree.body if isinstance(node, ast.ClassDef)),
        classes=tuple(node for node in nodes if isinstance(node, ast.ClassDef)),
        functions=tuple(node for node in nodes if isinstance(node, Function)),
        imports=tuple(node for node in nodes if isinstance(node, ast.ImportFrom)),
    )


def functions() -> Iterator[tuple[str, Function]]:
    for module in parsed_modules():
        for node in module.functions:
            yield module.path, node


def last_line(node: Function) -> int:
    return node.end_lineno or node.lineno


def is_participle(node: Function) -> bool:
    """Whether the whole name is one participle (`checked`, `told`), which hides what a call does.

    Properties and answers of type bool are facts about a value, for which a participle is right.
    """
    name = node.name.strip("_")
    if name not in IRREGULAR and not re.fullmatch(r"[a-z]{3,}ed", name):
        return False
    decorators = {name_of(each) for each in node.decorator_list}
    is_answer = name_of(node.returns) == "bool"
    return not (name in NO_PARTICIPLE or is_answer or decorators & {"property", "cached_property"})


def name_of(node: ast.expr | None) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def participles() -> list[str]:
    return [
        f"{path}:{node.lineno} {node.name}" for path, node in functions() if is_participle(node)
    ]


def repeated_class_names() -> list[str]:
    """Return the names that top-level classes of more than one module have, with the modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in parsed_modules():
        for node in module.top_classes:
            if not node.name.endswith("Config"):
                homes[node.name].append(module.path)
    return [
        f"{name}: {', '.join(paths)}"
        for name, paths in sorted(homes.items())
        if len(paths) > 1 and name not in NO_TYPES_OF_OURS
    ]


def describing_serializers() -> list[str]:
    """Return the serializers that neither read a request nor render an answer.

    They repeat what a typed document says (decision 0065). Who reads is a StrictSerializer; who
    renders is made in a function, or is a base or a member of one that is.
    """
    rest = [module for module in parsed_modules() if "/rest/" in module.path]
    places = {node.name: (module, node) for module in rest for node in module.classes}
    plain = _descendants({"Serializer"}, [node for _, node in places.values()])
    made = {name for module in rest for each in module.functions for name in _made_in(each)}
    pending, used = sorted(made & plain), set[str]()
    while pending:
        name = pending.pop()
        used.add(name)
        node = places[name][1]
        parts = {*map(name_of, node.bases), *_made_in(node)}
        pending += sorted(parts & plain - used)
    return [
        f"{places[name][0].path}:{places[name][1].lineno} {name}" for name in sorted(plain - used)
    ]


def _descendants(roots: set[str], classes: list[ast.ClassDef]) -> set[str]:
    """Return the names of the classes that derive from a root, but not from StrictSerializer."""
    found: set[str] = set()
    while True:
        more = {
            node.name
            for node in classes
            if node.name != "StrictSerializer" and (roots | found) & {*map(base_name, node.bases)}
        }
        if more <= found:
            return found
        found |= more


def base_name(base: ast.expr) -> str:
    """Return the name of a base class, also of `serializers.Serializer[Any]`."""
    return name_of(base.value if isinstance(base, ast.Subscript) else base)


def _made_in(node: ast.AST) -> set[str]:
    return {name_of(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}


def gerund_modules() -> list[str]:
    return [
        module.path
        for module in parsed_modules()
        if re.search(r"[a-z]{3}ing\.py$", module.path) and not re.search(NOUNS_IN_ING, module.path)
    ]


def lines_with(pattern: str) -> list[str]:
    """Return an entry for each match in a line of any module."""
    return [
        f"{module.path}:{number}"
        for module in parsed_modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        for _ in re.findall(pattern, line)
    ]


def untyped_mappings() -> list[str]:
    return lines_with(r"dict\[str, Any\]")


def dangling_citations() -> list[str]:
    """Return the lines that cite a section by number without the document it stands in."""
    return lines_with(r"\bcontract,? \d+\.\d+|\(\d{1,2}\.\d{1,2}\)")


def inner_imports() -> list[str]:
    """Return the imports of ours inside functions, once for each function around them."""
    return [
        f"{module.path}:{each.lineno}"
        for module in parsed_modules()
        for each in module.imports
        if each.col_offset and (each.module or "").split(".")[0] in PACKAGES
        for function in module.functions
        if function.lineno < each.lineno <= last_line(function)
    ]


def template_lines(is_counted: Callable[[str], object]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(ROOT.glob("templates/**/*.html"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if is_counted(line)
    ]


def long_template_lines() -> list[str]:
    return template_lines(lambda line: len(line) > 160)


def paths_by_hand() -> list[str]:
    """Return the template lines that write an address of ours instead of `{% url %}`."""
    return template_lines(re.compile(r"""(?:href|action|hx-get|hx-post|src)="/(?!/)""").search)


def long_modules() -> list[str]:
    return [module.path for module in parsed_modules() if module.text.count("\n") > 400]


def long_functions() -> list[str]:
    return [
        f"{path}:{node.lineno} {node.name}"
        for path, node in functions()
        if last_line(node) - node.lineno + 1 > 60
    ]


FIGURES: Final[dict[str, Callable[[], list[str]]]] = {
    "functions-named-by-a-participle": participles,
    "class-names-in-several-modules": repeated_class_names,
    "serializers-that-only-describe": describing_serializers,
    "modules-named-ing": gerund_modules,
    "dict-str-any": untyped_mappings,
    "imports-inside-functions": inner_imports,
    "dangling-citations": dangling_citations,
    "template-lines-over-160": long_template_lines,
    "paths-by-hand-in-templates": paths_by_hand,
    "modules-over-400-lines": long_modules,
    "functions-over-60-lines": long_functions,
}


@cache
def measure(name: str) -> list[str]:
    """Return the places that a figure counts, as `path:line`, with a name where there is one."""
    return FIGURES[name]()


def read_limits() -> dict[str, int]:
    """Return the limits of pyproject.toml by the name of their figure."""
    limits: dict[str, int] = tomllib.loads(PYPROJECT.read_text())["tool"]["partita"]["figures"]
    return limits


def lower_limits() -> None:
    """Write each figure that fell into pyproject.toml; what stands beside its value stays."""
    text = PYPROJECT.read_text()
    for name, limit in read_limits().items():
        if (count := len(measure(name))) < limit:
            text = re.sub(rf"(?m)^{name} = {limit}\b", f"{name} = {count}", text)
    PYPROJECT.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="figures of the tree, with their limits")
    parser.add_argument("--where", action="store_true", help="name every place that counts")
    parser.add_argument("--lower", action="store_true", help="write limits that fell")
    options = parser.parse_args()
    if options.lower:
        lower_limits()
    limits = read_limits()
    for name in FIGURES:
        found = measure(name)
        print(f"{len(found):>6}  of {limits.get(name, 0):>4}  {name}")
        if options.where:
            print(*(f"          {each}" for each in found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
