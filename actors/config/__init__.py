"""The configuration as a mirror runs it: loaded from its reference, compared with another, checked."""
