"""A process that reads the state of a Ray cluster for a test: it answers each input line with the node table.

It is no driver and no job, and the test's own process stays free of Ray, which reads its token once per process.
"""

import sys
from typing import Any

import msgspec


class NodeSeen(msgspec.Struct, frozen=True):
    """A node as Ray's control store has it. `name` is what `--node-name` gave it, else its address."""

    node_id: str
    name: str
    alive: bool
    resources: dict[str, float]
    draining: bool = False


def main(address: str) -> None:
    """Answer until standard input ends."""
    from ray import _raylet  # here, because tests import this module for its struct only
    from ray._private.state import GlobalState

    raylet: Any = _raylet  # untyped
    state: Any = GlobalState()  # type: ignore[no-untyped-call]
    options = raylet.GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    state._initialize_global_state(options)
    for _line in sys.stdin.buffer:
        draining = state.get_draining_nodes()
        seen = [
            NodeSeen(
                node_id=node["NodeID"],
                name=node["NodeName"],
                alive=node["Alive"],
                resources=node["Resources"],
                draining=node["NodeID"] in draining,
            )
            for node in state.node_table()
        ]
        sys.stdout.buffer.write(msgspec.json.encode(seen) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
