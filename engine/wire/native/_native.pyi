from typing import Any

INTERFACE: int
HAS_CRC_INSTRUCTION: int

def __getattr__(name: str) -> Any: ...  # engine.wire.native.functions declares them
