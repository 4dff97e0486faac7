"""Runtime of all jobs: the table of job names, the runner with its threads, the session, the core budget, storage."""
