"""The limit for inflating a batch."""

# By default a broker accepts batches up to 1 MiB, and repetitive JSON shrinks about 20 times. A batch above this limit
# is a decompression bomb, or too large for this copier's memory (`raymirror.batch.inflated.bytes`).
MAX_INFLATED_BYTES = 64 * 1024 * 1024


class InflateError(ValueError):
    """Compressed bytes that cannot be inflated, or not within the limit."""


class InflatedTooLarge(InflateError):
    """Compressed bytes that inflate to more than the limit; they may be fine otherwise."""

    def __init__(self, codec: str, limit_bytes: int) -> None:
        super().__init__(f"{codec}: more than {limit_bytes} bytes when inflated")
