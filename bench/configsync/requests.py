"""Counts the requests that brokers served, from their own request log. It is on only for the counted pass."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.configsync.passes import Pass, Passes
from bench.errors import BenchError
from deploy.local.cluster import EmbeddedCluster

_LOGGER = "kafka.request.logger"
_MARK = "Completed request:"
COUNTED = ("METADATA", "DESCRIBE_CONFIGS", "INCREMENTAL_ALTER_CONFIGS", "DESCRIBE_ACLS", "CREATE_ACLS")
"""The requests of config and ACL sync; a mirror's other requests are not counted."""
_STAMP = re.compile(r"\[(?P<at>[0-9T:,.\-]+)\]")


class RequestLog:
    """The request log of every broker of some clusters."""

    def __init__(self, *clusters: EmbeddedCluster) -> None:
        self._clusters = clusters

    def switch(self, *, on: bool) -> None:
        """Switch the brokers' request log on or off. Raises ClusterError."""
        for cluster in self._clusters:
            for broker in cluster.brokers:
                cluster.tool(
                    "kafka.admin.ConfigCommand",
                    *("--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "broker-loggers"),
                    *("--entity-name", str(broker.node_id), "--alter"),
                    *("--add-config", f"{_LOGGER}={'DEBUG' if on else 'WARN'}"),
                )

    def count(self, passes: Passes, one: Pass) -> dict[str, int]:
        """Count the requests of a pass, by kind, and what they altered."""
        until_s = passes.over_s(one)
        files = (path for cluster in self._clusters for path in cluster.log_files)
        lines = (line for path in files for line in _lines(path))
        return counted(within(lines, one.began_s, until_s), passes.clients)


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as log:
        for line in log:
            yield line.decode(errors="replace")


def within(lines: Iterable[str], from_s: float, until_s: float) -> Iterator[str]:
    """Return the lines of requests that brokers served between two instants, Unix time in seconds."""
    for line in lines:
        stamp = _STAMP.match(line)
        if stamp is None or _MARK not in line:
            continue
        if from_s <= datetime.fromisoformat(stamp["at"].replace(",", ".")).timestamp() < until_s:
            yield line


def counted(lines: Iterable[str], clients: Sequence[str]) -> dict[str, int]:
    """Count requests by kind, of clients whose id contains one of these; `altered_...`: what they named to be altered.

    A request that a broker forwards to its controller is in the log twice, and counts once. Raises BenchError if
    a line is cut short.
    """
    found: Counter[str] = Counter({name.lower(): 0 for name in COUNTED} | {"altered_topics": 0, "altered_configs": 0})
    for line in lines:
        _, mark, text = line.partition(_MARK)
        if not mark or not any(name in text for name in COUNTED):
            continue
        one = _request(text)
        header = one["requestHeader"]
        kind = header["requestApiKeyName"]
        if (
            one.get("isForwarded")
            or kind not in COUNTED
            or not any(name in str(header["clientId"]) for name in clients)
        ):
            continue
        found[kind.lower()] += 1
        if kind == "INCREMENTAL_ALTER_CONFIGS":
            resources = one["request"]["resources"]
            found["altered_topics"] += len(resources)
            found["altered_configs"] += sum(len(resource["configs"]) for resource in resources)
    return dict(found)


def _request(text: str) -> dict[str, Any]:
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except ValueError as error:
        raise BenchError("requests", f"a line of the request log that cannot be read ({error}): {text[:200]}") from None
    return dict(found)
