"""Brokers of other releases of Kafka: jars downloaded once into the user's cache and checked as deploy/local does.

`kafka-3.9-jars.sha256` lists what a broker of 3.9.1 needs at run time (resolved once from kafka_2.13), and a binding
of slf4j, without which it logs nothing.
"""

import functools
import hashlib
import os
from pathlib import Path

from deploy.local.jar_list import decode_jars
from deploy.local.jars import cache_folder, ensure_in, say_aloud


@functools.cache
def classpath_of(release: str) -> str:
    """Return the class path of a broker of a release that is listed here ("3.9"); fetches jars that are missing."""
    listed = Path(__file__).with_name(f"kafka-{release}-jars.sha256").read_bytes()
    jars = decode_jars(listed.decode())
    folder = ensure_in(cache_folder(), f"jars-{release}-{hashlib.sha256(listed).hexdigest()[:12]}", jars, say_aloud)
    return os.pathsep.join(str(folder / jar.path) for jar in jars)
