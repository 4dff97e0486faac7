"""`house`: figures of the code itself: packages, their imports, and signs of code that is hard to read.

Reads the syntax trees of the source and imports nothing. `--draw FILE` writes the drawing of the packages.
"""

import argparse
import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

PRODUCT = ("policies", "engine", "actors", "deploy")
ROOT = Path(__file__).parent.parent
MOST_PARAMETERS = 6
MOST_WRITTEN = 12
_RIDDLES = ("What", "How", "Who", "Whom", "Where", "Whether", "When", "Since", "Why")
"""A module docstring that begins with one of these words describes its thing and does not name it."""
_HEAD = """# The packages and what they import

`make architecture` writes this page, and a test checks it. A package is below every package that it imports. Only
imports inside one parent are drawn; `engine/DESIGN.md` and the packages' docstrings give the reasons.
"""


class Writes(msgspec.Struct, frozen=True):
    """Attributes of one class that other modules assign."""

    module: str
    name: str
    attributes: tuple[str, ...]


class House:
    """The product's modules below one folder."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    @cached_property
    def paths(self) -> dict[str, Path]:
        """The file of each module and package, by its dotted name."""
        files = sorted(path for top in PRODUCT for path in (self._root / top).rglob("*.py"))
        return {_module_name(path.relative_to(self._root)): path for path in files}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The syntax tree of each."""
        return {name: ast.parse(path.read_text()) for name, path in self.paths.items()}

    @cached_property
    def packages(self) -> dict[str, list[str]]:
        """The modules of each package, without those of packages in it."""
        found: dict[str, list[str]] = {name: [] for name, path in self.paths.items() if path.name == "__init__.py"}
        for name in self.paths.keys() - found.keys():
            found[name.rpartition(".")[0]].append(name)
        return found

    @cached_property
    def arrows(self) -> list[tuple[str, str]]:
        """Every import of one module by another; an import of a package itself is none."""
        return [
            (importer, imported)
            for importer, tree in self.trees.items()
            for imported in {self._known(name) for name in _imported(tree)}
            if imported is not None and imported != importer and imported not in self.packages
        ]

    def _known(self, name: str) -> str | None:
        while name and name not in self.paths:
            name = name.rpartition(".")[0]
        return name or None

    @cached_property
    def classes(self) -> list[tuple[str, ast.ClassDef]]:
        """Every class with its module."""
        return [
            (module, node)
            for module, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ]

    @cached_property
    def functions(self) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Every function and method with its module."""
        return [
            (module, node)
            for module, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    def lines(self, module: str) -> int:
        """Count the lines of a module."""
        return len(self.paths[module].read_text().splitlines())


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# --- imports between packages ----------------------------------------------------------------------------------------


def graph_of(arrows: Iterable[tuple[str, str]], package: str) -> dict[str, set[str]]:
    """Say which children of a package (modules and packages; `package` empty: the top) import which others."""
    prefix = f"{package}." if package else ""
    graph: dict[str, set[str]] = defaultdict(set)
    for importer, imported in arrows:
        if importer.startswith(prefix) and imported.startswith(prefix):
            ends = (name.removeprefix(prefix).partition(".")[0] for name in (importer, imported))
            by, of = ends
            if by != of:
                graph[by].add(of)
    return graph


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the names along one import cycle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def layers(graph: Mapping[str, set[str]], names: Iterable[str]) -> list[list[str]]:
    """Put names into layers: each above all that import it. There must be no cycle."""
    sorter = TopologicalSorter({name: graph.get(name, set()) for name in names})
    sorter.prepare()
    found: list[list[str]] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        found.append(ready)
        sorter.done(*ready)
    return found


def draw(house: House) -> str:
    """Draw the packages as text: one drawing per package that holds others, layers from the top down."""
    text = _HEAD
    for parent in ["", *sorted(house.packages)]:
        inner = [name for name in house.packages if name.rpartition(".")[0] == parent]
        if len(inner) > 1 or (parent and inner):
            text += f"\n## {parent or 'The top'}\n\n{_drawing(house, parent, inner)}"
    return text


def _drawing(house: House, parent: str, inner: list[str]) -> str:
    names = {name.rpartition(".")[2]: name for name in inner}
    graph = graph_of(house.arrows, parent)
    among = {by: graph[by] & names.keys() for by in graph if by in names}
    width = max(map(len, names))
    text = "```text\n"
    for layer in layers(among, names):
        for name in layer:
            doc = (ast.get_docstring(house.trees[names[name]]) or "").split("\n\n")[0].replace("\n", " ")
            below = ", ".join(sorted(among.get(name, ())))
            text += f"{name:{width}}  {doc}\n" + (f"{'':{width}}  imports {below}\n" if below else "")
        text += "\n"
    return text.rstrip("\n") + "\n```\n"


# --- figures ---------------------------------------------------------------------------------------------------------


def class_names(house: House) -> dict[str, list[str]]:
    """Class names that name several things, with their modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, node in house.classes:
        found[node.name].append(module)
    return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}


def long_constructors(house: House) -> dict[str, int]:
    """Constructors with too many parameters, and how many they have."""
    found: dict[str, int] = {}
    for module, node in house.classes:
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                count = len(part.args.args) + len(part.args.kwonlyargs) - 1
                if count > MOST_PARAMETERS:
                    found[f"{module}.{node.name}"] = count
    return found


def written_from_outside(house: House) -> list[Writes]:
    """Classes of which other modules assign many attributes; counts only attribute names that one class alone has."""
    owners: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for module, node in house.classes:
        for target in _targets(node):
            if isinstance(target.value, ast.Name) and target.value.id == "self":
                owners[target.attr].add((module, node.name))
    written: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module, tree in house.trees.items():
        for target in _targets(tree):
            is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
            of = owners.get(target.attr, set())
            if not is_own and len(of) == 1 and next(iter(of))[0] != module:
                written[next(iter(of))].add(target.attr)
    found = (Writes(module, name, tuple(sorted(some))) for (module, name), some in sorted(written.items()))
    return [one for one in found if len(one.attributes) > MOST_WRITTEN]


def _targets(tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            yield from (one for one in _flat(target) if isinstance(one, ast.Attribute))


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple):
        for one in target.elts:
            yield from _flat(one)
    else:
        yield target


def callable_parameters(house: House) -> int:
    """Count parameters of functions that are functions."""
    return sum(
        one.annotation is not None and "Callable" in ast.unparse(one.annotation)
        for _, node in house.functions
        for one in (*node.args.args, *node.args.kwonlyargs)
    )


def minus_ones(house: House) -> int:
    """Count values of -1 that are assigned or are defaults: they mean None, and the types do not show it."""
    return sum(_is_minus_one(value) for tree in house.trees.values() for value in _given(tree))


def _given(tree: ast.AST) -> Iterator[ast.expr | None]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword):
            yield node.value
        elif isinstance(node, ast.arguments):
            yield from (*node.defaults, *node.kw_defaults)


def _is_minus_one(value: ast.expr | None) -> bool:
    is_minus = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)
    return is_minus and isinstance(value.operand, ast.Constant) and value.operand.value == 1  # type: ignore[union-attr]


def riddles(house: House) -> list[str]:
    """Modules whose docstring does not begin with the name of their thing."""
    return [
        module
        for module, tree in house.trees.items()
        if (ast.get_docstring(tree) or "What").split(maxsplit=1)[0].rstrip(",:") in _RIDDLES
    ]


# --- the command -----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to read (default: this one)")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="write the drawing of the packages here")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one tree and return its JSON object."""
    house = House(args.root)
    if args.draw:
        args.draw.write_text(draw(house))
    sizes = {name: len(modules) for name, modules in house.packages.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    circles = {name: circle(graph_of(house.arrows, name)) for name in ["", *house.packages]}
    figures: dict[str, Any] = {
        "modules": sum(sizes.values()),
        "lines": sum(map(house.lines, house.paths)),
        "packages": len(sizes),
        "largest package": f"{largest}: {sizes[largest]} modules",
        "longest module": max(map(house.lines, house.paths)),
        "circles of imports": sum(map(bool, circles.values())),
        "class names of several things": len(class_names(house)),
        f"constructors above {MOST_PARAMETERS} parameters": len(long_constructors(house)),
        f"classes with more than {MOST_WRITTEN} attributes written from outside": len(written_from_outside(house)),
        "parameters that are functions": callable_parameters(house),
        "-1 as a value": minus_ones(house),
        "docstrings of modules that do not name their thing": len(riddles(house)),
    }
    table = Table("figure", "value", title="the house")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else value)
    Console().print(table)
    by_package = {
        name: {"modules": sizes[name], "lines": sum(map(house.lines, house.packages[name]))} for name in sizes
    }
    return {
        "bench": "house",
        "systems": {},
        "ratios": {},
        "figures": figures,
        "packages": by_package,
        "classes": class_names(house),
        "constructors": long_constructors(house),
        "written": msgspec.to_builtins(written_from_outside(house)),
        "riddles": riddles(house),
    }
