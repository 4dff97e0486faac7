"""Fixtures that every test may use."""

import asyncio
import gc
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster, running_clusters
from deploy.local.tools import QUICK_FLAGS
from tests.harness.known_secrets import forget_secrets
from tests.harness.outside import nothing_outside
from tests.harness.virtual_time import TestLoops, virtual_time
from tests.streams import ROOT, UNITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Machines are slow and shared: no property is about time.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

# Most brokers of tests live for seconds, and the optimising compiler takes more than half of what their start costs.
Broker.jvm_flags = QUICK_FLAGS

_NOT_UNIT = {"fault", "integration", "local", "ray", "soak"}
_JVMS = {"java", "spark"}
_FOLDERS = count()


@pytest.fixture
def _own_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name a folder of the test's own, without making it."""
    name = re.sub(r"\W", "_", request.node.name)[:26]  # short: names of sockets have 107 bytes at most
    return tmp_path_factory.getbasetemp() / f"{name}{next(_FOLDERS)}"


@pytest.fixture
def tmp_path(_own_folder: Path) -> Path:
    """Make the test's folder. pytest's fixture of this name looks through all folders for the next number, and makes a
    link beside each: among 14,000 tests that takes two minutes.
    """
    _own_folder.mkdir(mode=0o700)
    return _own_folder


@pytest.fixture(autouse=True)
def _own_surroundings(_own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep state files out of the user's own folder, and Ray clusters of the user out of the test.

    The cache of jars is shared on purpose.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(_own_folder / "state"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def pytest_configure() -> None:
    asyncio.set_event_loop_policy(TestLoops())


def pytest_collection_finish() -> None:
    """Have the collector pass over what all of the run keeps: the modules and the tests themselves."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _unit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a unit test a time of its own, and nothing else of this machine; `tests/README.md` says what is one."""
    if _NOT_UNIT & {mark.name for mark in request.node.iter_markers()}:
        yield
        return
    forget_secrets()  # a password of another test may be a common word
    with virtual_time(), nothing_outside():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests with clusters among the units, where `make test` would not find them.

    PySpark leaves sockets to its own JVM for the garbage collector to close: not ours to mend.
    """
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if marks & {"integration", "ray"} and item.path.is_relative_to(ROOT / UNITS):
            raise pytest.UsageError(f"{item.nodeid} needs clusters: it belongs in tests/integration (tests/README.md)")
    left = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
    for item in items:
        if _JVMS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.local)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings(left))


class Pair(NamedTuple):
    """The two clusters that most tests with real brokers share."""

    source: EmbeddedCluster
    target: EmbeddedCluster


@pytest.fixture(scope="session")
def cluster_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both clusters, one broker each, started side by side and stopped by pid at the end."""
    folder = tmp_path_factory.mktemp("clusters")
    # Nobody kills these brokers, and on a machine at its limit they are silent for seconds: one that is taken for dead
    # leads nothing, and then again at another epoch.
    calm = {"broker.session.timeout.ms": "60000"}
    # The cleaner looks for work every 15 s by default; compaction tests wait for it.
    eager = calm | {"log.cleaner.backoff.ms": "100"}
    pair = Pair(
        EmbeddedCluster("source", folder / "source", overrides=eager),
        EmbeddedCluster("target", folder / "target", overrides=calm),
    )
    with running_clusters(*pair):
        yield pair


@pytest.fixture(scope="session")
def source_cluster(cluster_pair: Pair) -> EmbeddedCluster:
    """Where records come from. Shared: use topic names of your own."""
    return cluster_pair.source


@pytest.fixture(scope="session")
def target_cluster(cluster_pair: Pair) -> EmbeddedCluster:
    """Where records go. Shared: use topic names of your own."""
    return cluster_pair.target


@pytest.fixture(scope="session")
def java() -> Iterator[Any]:
    """Kafka's own classes, in a JVM beside this process."""
    from tests.harness.jvm import jvm  # a gateway to Java, which most tests do without

    with jvm() as classes:
        yield classes


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A Spark session in this process, without Ray. Shared: use view and query names of your own."""
    from tests.harness.spark import local_spark  # imports pyspark, which most tests do without

    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
