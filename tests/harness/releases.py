"""Brokers of other releases of Kafka: jars downloaded once into the user's cache and checked as deploy/local does.

`kafka-RELEASE-jars.sha256` lists what a broker of the release needs at run time: 2.8.2, 3.3.2 and 3.9.1, resolved once
from kafka_2.13; a binding of slf4j, without which it logs nothing; and log4j's classes for those that load them. All
run on Java 17.
"""

import functools
import hashlib
import os
from pathlib import Path

from deploy.local.cluster import EmbeddedCluster
from deploy.local.jar_list import decode_jars
from deploy.local.jars import cache_folder, ensure_in, say_aloud
from tests.harness.zookeeper import ZooKeeperCluster

_WITH_ZOOKEEPER = frozenset({"2.8"})


@functools.cache
def classpath_of(release: str) -> str:
    """Return the class path of a broker of a release that is listed here ("3.9"); fetches jars that are missing."""
    listed = Path(__file__).with_name(f"kafka-{release}-jars.sha256").read_bytes()
    jars = decode_jars(listed.decode())
    folder = ensure_in(cache_folder(), f"jars-{release}-{hashlib.sha256(listed).hexdigest()[:12]}", jars, say_aloud)
    return os.pathsep.join(str(folder / jar.path) for jar in jars)


def older_cluster(release: str, name: str, folder: Path, *, brokers: int = 1) -> EmbeddedCluster:
    """Make a cluster of a release; one that needs ZooKeeper has one broker."""
    classpath = classpath_of(release)
    if release in _WITH_ZOOKEEPER:
        assert brokers == 1, "one broker is enough for tests of a release"
        return ZooKeeperCluster(name, folder, classpath=classpath)
    return EmbeddedCluster(name, folder, brokers=brokers, classpath=classpath, heap_mib=512)
