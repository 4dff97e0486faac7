"""Runtime of every job: its table of names, the runner with its threads, the session, its share of cores, storage."""
