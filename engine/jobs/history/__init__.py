"""Tables of windows as files: commits, compaction of small files, retention, cleanup."""
