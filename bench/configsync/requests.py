"""Requests that brokers served, read from their own request log, which is switched on for the pass that is counted."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from deploy.local.cluster import Cluster

_LOGGER = "kafka.request.logger"
_MARK = "Completed request:"
COUNTED = ("METADATA", "DESCRIBE_CONFIGS", "INCREMENTAL_ALTER_CONFIGS", "DESCRIBE_ACLS", "CREATE_ACLS")
"""What keeping configs and ACLs in step asks for; a mirror's other requests are not counted."""
_OURS = ("aiokafka", "adminclient")
"""Clients of the bench itself."""


class RequestLog:
    """The request log of every broker of some clusters."""

    def __init__(self, *clusters: Cluster) -> None:
        self._clusters = clusters
        self._from: dict[Path, int] = {}

    def switch(self, *, on: bool) -> None:
        """Have the brokers log each request, or stop it. Raises ClusterError."""
        for cluster in self._clusters:
            for broker in cluster.brokers:
                cluster.tool(
                    "kafka.admin.ConfigCommand",
                    *("--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "broker-loggers"),
                    *("--entity-name", str(broker.node_id), "--alter"),
                    *("--add-config", f"{_LOGGER}={'DEBUG' if on else 'WARN'}"),
                )

    def mark(self) -> None:
        """Count from here on."""
        for cluster in self._clusters:
            self._from |= {path: path.stat().st_size for path in cluster.log_files}

    def count(self) -> dict[str, int]:
        """Count what was asked for since the mark, by kind, and what was to be altered."""
        return counted(line for path, at in self._from.items() for line in _lines(path, at))


def _lines(path: Path, at: int) -> Iterator[str]:
    with path.open("rb") as log:
        log.seek(at)
        for line in log:
            yield line.decode(errors="replace")


def counted(lines: Iterable[str]) -> dict[str, int]:
    """Count requests by kind; `altered_topics` and `altered_configs` are what IncrementalAlterConfigs named.

    A request that a broker hands on to its controller is in the log twice, and counted once. Raises BenchError where
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
        if one.get("isForwarded") or kind not in COUNTED or str(header["clientId"]).startswith(_OURS):
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
