"""Commands that start, change or stop a mirror: run, stop, reload, restart, drain, pause, resume."""
