"""Tables of windows as files: commits, folding of small files, retention, repair."""
