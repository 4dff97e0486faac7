"""Commands that show a mirror and change nothing: status, lag, events, logs, report."""
