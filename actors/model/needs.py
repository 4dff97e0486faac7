"""Resources that a copier requests from a Ray node: one CPU, memory if its buffers exceed the usual size, and a site.

Ray's memory resource is a number that nodes declare and actors take from; Ray does not enforce it. A copier with the
usual buffers fits wherever it has a CPU, and requests no memory. If it did, an autoscaled cluster would never start a
node whose type does not declare its memory.
"""

from typing import NamedTuple

from engine.config.settings import FlowConfig, MirrorConfig
from policies.model import FlowName

USUAL_BUFFERS_BYTES = 64 * 1024 * 1024
"""The default of `raymirror.copier.memory.bytes`."""
PROCESS_BYTES = 256 * 1024 * 1024
"""A copier's process without its buffers, Ray's part included."""


def memory_of(flow: FlowConfig) -> int:
    """Return the bytes of memory that a copier of a flow requests; 0: it requests none."""
    return PROCESS_BYTES + flow.buffer_budget_bytes if flow.buffer_budget_bytes > USUAL_BUFFERS_BYTES else 0


class CopierNeeds(NamedTuple):
    """What a copier of a flow requests in addition to one CPU. `memory_bytes` 0 and an empty `site`: nothing."""

    memory_bytes: int
    site: str


def needs_of(config: MirrorConfig) -> dict[FlowName, CopierNeeds]:
    """Return what the copiers of each flow request."""
    return {flow.name: CopierNeeds(memory_of(flow), flow.copiers_site) for flow in config.flows}


def least_cpus(config: MirrorConfig) -> int:
    """Return the logical CPUs that a mirror needs at least: for its copiers, one that replaces another, and Spark."""
    spark = config.spark
    return sum(flow.copiers for flow in config.flows) + 1 + (spark.executors * spark.cores if spark.on else 0)


def sites_of(config: MirrorConfig) -> tuple[str, ...]:
    """Return the sites where copiers must run, in order of their names."""
    return tuple(sorted({flow.copiers_site for flow in config.flows} - {""}))
