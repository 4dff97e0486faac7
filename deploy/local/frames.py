"""Splits a byte stream at Kafka's frame borders, piece by piece, without waiting for a whole frame.

    | length: int32 | header ...                     | rest ... |
      requests:       api key int16, api version int16, correlation id int32
      responses:      correlation id int32
(Kafka protocol guide, "Common Request and Response Structure"; plaintext connections only.)
"""

from collections.abc import Iterator

_LENGTH_BYTES = 4


class FramePart:
    """Bytes of one frame; `header` is set on the first piece of a frame, None on the following ones."""

    __slots__ = ("api", "data", "header")

    def __init__(self, data: bytes, header: bytes | None) -> None:
        self.data = data
        self.header = header
        self.api = -1
        """API key of the request, also for its response; -1 if unknown. Filled by the proxy."""


class FrameSplitter:
    """Splits one direction of a connection; keeps less than one header between calls."""

    def __init__(self, header_bytes: int) -> None:
        self._begin_bytes = _LENGTH_BYTES + header_bytes
        self._begin = b""
        self._left_bytes = 0

    def split(self, chunk: bytes) -> Iterator[FramePart]:
        """Yield the bytes of `chunk` in order, each piece inside one frame; the last few bytes may wait for more."""
        data = self._begin + chunk
        self._begin = b""
        at = 0
        while at < len(data):
            header = None
            if not self._left_bytes:
                if len(data) - at < self._begin_bytes:
                    self._begin = data[at:]
                    return
                self._left_bytes = _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES])
                header = data[at + _LENGTH_BYTES : at + self._begin_bytes]
            end = min(at + self._left_bytes, len(data))
            self._left_bytes -= end - at
            yield FramePart(data[at:end], header)
            at = end
