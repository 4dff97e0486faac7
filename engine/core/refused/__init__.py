"""Records that the target refuses: which may be left out, and their entries in the quarantine topic. Pure."""
