"""The guard against batches that inflate without end."""

# The largest batch a broker takes by default is 1 MiB and few topics allow more than 10 MiB; repetitive JSON
# shrinks about 20 times. A batch beyond this is a bomb, or belongs to a topic this copier has no memory for.
MAX_INFLATED_BYTES = 256 * 1024 * 1024


class InflateError(ValueError):
    """Compressed bytes that cannot be inflated, or not within the limit."""
