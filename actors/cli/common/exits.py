"""Exit codes of the commands, which scripts may rely on."""

OK = 0
FAILED = 1  # it ran, and the outcome is not good
UNUSABLE = 2  # wrong arguments, configuration or clusters; nothing was written
NO_MIRROR = 3  # no running mirror was found
NOT_EQUAL = 4  # a failover is done, but some partition is not drained or some group's offsets are not equal
CHANGES = 5  # a plan has changes to apply, or two files differ
