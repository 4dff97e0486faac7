"""Import rules between packages, and imports that some packages must never have, read from the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.house import (
    PRODUCT,
    House,
    circle,
    class_names,
    draw,
    graph_of,
    long_constructors,
    riddles,
    written_from_outside,
)

ROOT = Path(__file__).parent.parent
HOUSE = House(ROOT)
MOST_LINES = 500
MOST_MODULES = 18
"""In one package: as many as a reader keeps apart."""

# Pure code gets its time, its chance and its bytes from whoever calls it.
PURE = ("policies", "engine.wire", "engine.core")
NOT_PURE = {"asyncio", "time", "logging", "random", "os", "socket", "threading", "subprocess", "selectors", "select"}

# What a layer must not import; every rule that matches holds.
FORBIDDEN = {
    "policies": {"engine", "actors", "deploy", "ray", "raydp", "aiokafka", "pyspark"},
    "engine": {"actors", "deploy", "ray", "raydp"},
    "engine.base": {"engine.core", "engine.flow", "engine.kafka", "engine.jobs", "engine.services", "engine.config"},
    "engine.security": {"engine.core", "engine.flow", "engine.kafka", "engine.jobs", "engine.config", "aiokafka"},
    "engine.wire": {"engine.core", "engine.flow", "engine.kafka", "engine.jobs", "engine.services", "aiokafka"},
    "engine.core": {"engine.flow", "engine.kafka", "engine.jobs", "engine.services", "engine.config", "aiokafka"},
    "engine.flow": {"engine.kafka", "engine.jobs", "engine.services", "engine.config", "aiokafka"},
    "engine.config": {"engine.kafka", "engine.jobs", "engine.services", "engine.checks", "aiokafka"},
    "engine.kafka": {"engine.jobs", "engine.services", "engine.checks"},
    "engine.jobs": {"engine.services.runner", "engine.checks"},
    "actors.rest": {"actors.ray", "actors.http", "actors.spark", "actors.cli", "ray", "aiohttp", "asyncio"},
    "actors.console": {"actors.ray", "actors.http", "actors.api", "actors.cli", "ray", "aiohttp", "asyncio"},
    "actors.control": {"actors.ray", "actors.spark", "actors.cli", "ray", "engine.flow", "engine.kafka"},
    "deploy": {"engine", "actors", "policies", "ray", "raydp", "aiokafka"},
}
# Who alone may import a package.
ALONE = {
    "aiokafka": ("engine.kafka", "actors.demo"),
    "aiohttp": ("actors.http", "actors.forwarding", "actors.telemetry"),
    "ray": ("actors",),
    "raydp": ("actors",),
    "deploy": ("deploy", "actors.cli", "actors.demo", "actors.spark"),
    "pyspark": ("engine.jobs", "actors.spark"),
    "pandas": ("engine.jobs", "actors.spark"),
    "pyarrow": ("engine.jobs", "actors.spark"),
}

# Calls that block a loop, leave an orphan task, or read a clock that jumps; the files that may.
BANNED_CALLS = {
    # These run in the main thread of a command, which has no loop, and poll a mirror in another process; the idle
    # agent is a process of its own without a loop.
    "time.sleep": {
        "actors.cli.running.drain",
        "actors.cli.running.background",
        "actors.cli.running.stop",
        "actors.cli.common.quiesce",
        "actors.ray.idle_agent",
        "actors.ray.mirror",
        "actors.demo.play",
    },
    # A client has no task group of its own: its attempts to connect outlive who waits for them, and `close` ends them.
    # A connection logs in again by its own timer; its end cancels that.
    "asyncio.create_task": {"engine.kafka.client.control", "engine.kafka.client.relogin"},
    "asyncio.ensure_future": set[str](),
    "asyncio.gather": set[str](),
    "loop.create_task": set[str](),
}


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported; `from engine import core` counts as engine and engine.core."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def broken_arrows(module: str, tree: ast.AST) -> Iterator[str]:
    forbidden = {name for layer, names in FORBIDDEN.items() if is_within(module, layer) for name in names}
    if any(is_within(module, layer) for layer in PURE):
        forbidden |= NOT_PURE
    for package, owners in ALONE.items():
        if not any(is_within(module, owner) for owner in owners):
            forbidden.add(package)
    for line, imported in imports(tree):
        for name in sorted(forbidden):
            if is_within(imported, name):
                yield f"{module}:{line} imports {imported}"


def called_name(node: ast.Call) -> str:
    return ast.unparse(node.func)


def banned_calls(module: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or module in BANNED_CALLS.get(called_name(node), {module}):
            continue
        # gather that hands errors back waits for all of its tasks; without, the first error leaves the others running.
        if not any(keyword.arg == "return_exceptions" for keyword in node.keywords):
            yield f"{module}:{node.lineno} calls {called_name(node)}"


@pytest.mark.parametrize("module", sorted(HOUSE.paths))
def test_a_module_keeps_to_the_house(module: str) -> None:
    tree = HOUSE.trees[module]
    assert list(broken_arrows(module, tree)) == []
    assert list(banned_calls(module, tree)) == []
    assert HOUSE.lines(module) <= MOST_LINES


@pytest.mark.parametrize("package", ["", *sorted(HOUSE.packages)])
def test_a_package_has_room_a_purpose_and_no_circle(package: str) -> None:
    assert circle(graph_of(HOUSE.arrows, package)) == []
    if package:
        assert len(HOUSE.packages[package]) <= MOST_MODULES
        assert ast.get_docstring(HOUSE.trees[package])


def test_a_circle_is_found_at_its_level_and_nowhere_else() -> None:
    arrows = [("a.b.x", "a.c.y"), ("a.c.z", "a.b.w"), ("a.b.x", "a.b.w"), ("a.c.y", "d.e")]
    assert [bool(circle(graph_of(arrows, package))) for package in ("", "a", "a.b", "a.c")] == [
        False,
        True,
        False,
        False,
    ]


def test_a_class_name_stands_for_one_thing() -> None:
    assert class_names(HOUSE) == {}


def test_a_constructor_gets_what_belongs_together() -> None:
    # Brokers of tests and demos: each setting of a cluster that some test wants to be another one.
    assert set(long_constructors(HOUSE)) <= {"deploy.local.cluster.EmbeddedCluster"}


def test_an_object_changes_its_own_attributes() -> None:
    assert written_from_outside(HOUSE) == []


def test_a_module_docstring_names_its_thing() -> None:
    assert riddles(HOUSE) == []


def test_the_drawing_of_the_packages_is_true() -> None:
    assert (ROOT / "docs" / "architecture.md").read_text() == draw(HOUSE), "make architecture"


def test_there_is_something_to_look_at() -> None:
    assert len(HOUSE.arrows) > 1000
    assert {name.partition(".")[0] for name in HOUSE.paths} == set(PRODUCT)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("policies.model", "import engine.core.lane.lane"),
        ("policies.model", "from time import monotonic"),
        ("engine.core.lane.lane", "from engine import kafka"),
        ("engine.core.lane.lane", "import asyncio"),
        ("engine.wire.batch", "from engine.core.lane.lane import Lane"),
        ("engine.flow.drivers", "from engine.kafka.data.source import Source"),
        ("engine.flow.drivers", "import aiokafka.errors"),
        ("engine.services.runner", "import ray"),
        ("engine.services.runner", "from pyspark.sql import SparkSession"),
        ("actors.control.supervisor", "import pandas"),
        ("actors.rest.reading", "from actors.http.server import MirrorServer"),
        ("actors.rest.reading", "import asyncio"),
        ("actors.ray.mirror_parts", "from aiohttp import web"),
        ("actors.ray.copier_actor", "from deploy.local.cluster import Cluster"),
        ("deploy.local.cluster", "from engine.base.errors import MirrorError"),
    ],
)
def test_the_arrows_catch_what_they_should(module: str, source: str) -> None:
    assert len(list(broken_arrows(module, ast.parse(source)))) >= 1


def test_the_banned_calls_are_seen() -> None:
    tree = ast.parse("time.sleep(1)\nasyncio.create_task(f())\ngroup.create_task(f())")
    assert list(banned_calls("engine.x", tree)) == [
        "engine.x:1 calls time.sleep",
        "engine.x:2 calls asyncio.create_task",
    ]


@pytest.mark.local
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["cluster", "status"],
        ["cluster", "--help"],
        ["check", "--help"],
        ["convert", "--help"],
        ["translate", "--help"],
        ["verify", "--help"],
    ],
)
def test_light_commands_import_neither_ray_nor_spark(words: list[str], tmp_path: Path) -> None:
    script = (
        "import sys\nfrom actors.cli.main import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'ray', 'raydp', 'pyspark'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
