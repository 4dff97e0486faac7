"""Resources that a copier requests from a Ray node: one CPU, and memory if its buffers exceed the usual size.

Ray's memory resource is a number that nodes declare and actors take from; Ray does not enforce it. A copier with the
usual buffers fits wherever it has a CPU, and requests no memory. If it did, an autoscaled cluster would never start a
node whose type does not declare its memory.
"""

from engine.config.settings import FlowConfig

USUAL_BUFFERS_BYTES = 64 * 1024 * 1024
"""The default of `raymirror.copier.memory.bytes`."""
PROCESS_BYTES = 256 * 1024 * 1024
"""A copier's process without its buffers, Ray's part included."""


def memory_of(flow: FlowConfig) -> int:
    """Return the bytes of memory that a copier of a flow requests; 0: it requests none."""
    return PROCESS_BYTES + flow.buffer_budget_bytes if flow.buffer_budget_bytes > USUAL_BUFFERS_BYTES else 0
