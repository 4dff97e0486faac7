"""Looks for planted secrets in everything that a mirror leaves behind: files, command lines of processes, topics."""

import gzip
import json
import os
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

from aiokafka import AIOKafkaConsumer, TopicPartition

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import partition_count

_MOST_BYTES = 64 * 1024 * 1024


def spellings(secret: str) -> set[bytes]:
    """Return how a text may contain a secret: as it is, escaped in JSON, in a URL, in Base64."""
    texts = {secret, json.dumps(secret)[1:-1], quote(secret), quote_plus(secret), quote(secret, safe="")}
    return {text.encode() for text in texts} | {b64encode(secret.encode())}


class Planted:
    """The planted secrets by name, and all places where one was found."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._wanted = {name: spellings(value) for name, value in secrets.items()}
        self.found: list[str] = []

    def add(self, name: str, secret: str) -> None:
        """Look for one more, of which nobody knew before: an issued token."""
        self._wanted[name] = spellings(secret)

    def look(self, where: str, data: bytes) -> None:
        """Look in some bytes."""
        for name, texts in self._wanted.items():
            if any(text in data for text in texts):
                self.found.append(f"{name} in {where}")

    def look_at_files(self, folders: Iterable[Path], *, but: Iterable[Path] = ()) -> int:
        """Look in all files below folders; return how many there were. `but`: where the secrets were planted."""
        left_out, count = {path.resolve() for path in but}, 0
        for folder in folders:
            for path in _files(folder, left_out):
                count += 1
                for data in _contents(path):
                    self.look(str(path), data)
        return count

    def look_at_processes(self, *, but: frozenset[str] = frozenset()) -> int:
        """Look at the command lines of all processes of this machine but some programs'; return how many there were."""
        count = 0
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            if Path(line.partition(b"\0")[0].decode(errors="replace")).name not in but:
                count += 1
                self.look(f"the command line of process {folder.name}: {line[:80]!r}", line)
        return count

    async def look_at_topics(self, cluster: EmbeddedCluster, begin: tuple[str, ...]) -> int:
        """Look at all records of the topics whose names begin so; return how many there were."""
        count = 0
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False)
        await consumer.start()
        try:
            for topic in await consumer.topics():
                if not topic.startswith(begin):
                    continue
                partitions = [TopicPartition(topic, number) for number in range(await partition_count(cluster, topic))]
                ends = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                await consumer.seek_to_beginning(*partitions)
                for partition in partitions:
                    while await consumer.position(partition) < ends[partition]:
                        records = await consumer.getmany(partition, timeout_ms=2000)
                        for record in (one for some in records.values() for one in some):
                            count += 1
                            self.look(f"topic {topic}", (record.key or b"") + b" " + (record.value or b""))
        finally:
            await consumer.stop()
        return count


def _files(folder: Path, left_out: set[Path]) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        folders[:] = [name for name in folders if (here / name).resolve() not in left_out]
        for name in names:
            path = here / name
            if path.resolve() not in left_out and path.is_file() and path.stat().st_size <= _MOST_BYTES:
                yield path


def _contents(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, and those that gzip has packed in it."""
    data = path.read_bytes()
    yield data
    if data[:2] == b"\x1f\x8b":
        try:
            yield gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return
