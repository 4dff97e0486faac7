"""Commands that show a mirror: status, lag, events, logs, history, report. They change nothing."""
