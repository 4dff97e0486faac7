"""Commands that start, change or end a mirror: run, stop, reload, restart, drain, pause, resume."""
