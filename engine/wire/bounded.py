"""The guard against batches that inflate without end."""

# The largest batch a broker takes by default is 1 MiB, and repetitive JSON shrinks about 20 times. A batch beyond this
# is a bomb, or belongs to a topic this copier has no memory for (`raymirror.batch.inflated.bytes`).
MAX_INFLATED_BYTES = 64 * 1024 * 1024


class InflateError(ValueError):
    """Compressed bytes that cannot be inflated, or not within the limit."""


class InflatedTooLarge(InflateError):
    """Compressed bytes that become more than the limit when inflated; nothing else is known to be wrong with them."""

    def __init__(self, codec: str, limit_bytes: int) -> None:
        super().__init__(f"{codec}: more than {limit_bytes} bytes when inflated")
