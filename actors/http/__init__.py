"""Serves HTTP beside the supervisor, in its process and on its loop; `actors/rest` decides what is answered.

In: connections. Out: answers, and requests to the supervisor, the same that commands send. The number of connections,
the size and the time of each request and answer are bounded, so no client can hold up the supervisor. It is imported
only if a port is configured: aiohttp takes 6 MiB of memory.

`connections` accepts, `guarded` repeats nothing of what is no HTTP, `server` answers, `views` asks the supervisor.
`login_limit` and `shares` bound what an address and a user may do. `command_looks` runs commands that find something
out, `command_runs` those that do something and outlive this process.
"""
