"""What a copier asks of a Ray node: one CPU, and memory where its buffers may be more than comes with a CPU anyway.

Ray's memory resource is a number that nodes declare and actors take from; nobody is held to it. A copier with the usual
buffers fits wherever it has a CPU, and does not ask: a node type of an autoscaled cluster whose memory nobody has
written down would otherwise never be thought to fit.
"""

from engine.settings import FlowConfig

USUAL_BUFFERS_BYTES = 64 * 1024 * 1024
"""The default of `raymirror.copier.memory.bytes`."""
PROCESS_BYTES = 256 * 1024 * 1024
"""A copier's process without its buffers, Ray's part included."""


def memory_of(flow: FlowConfig) -> int:
    """Give the bytes that a copier of a flow asks for; 0: it does not ask."""
    return PROCESS_BYTES + flow.buffer_budget_bytes if flow.buffer_budget_bytes > USUAL_BUFFERS_BYTES else 0
