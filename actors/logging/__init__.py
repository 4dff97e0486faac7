"""Log lines of a process: sentences as JSON, repeated ones folded, files that rotate, crashes."""
