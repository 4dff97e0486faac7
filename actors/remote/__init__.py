"""Asks a mirror over HTTP, for commands on a machine without Ray: the same requests as over the supervisor's socket.

In: an address, a login from the environment or a file, requests. Out: the supervisor's answers, and its refusals in its
own words. It uses Python's own client only, because a command should start at once.

`login` finds who asks, `http_mirror` asks.
"""
