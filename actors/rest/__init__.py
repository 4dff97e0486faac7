"""Answers HTTP requests to a mirror: Kafka Connect's REST interface, probes, and a description of all routes.

In: the parts of a request, and a view of the mirror at that moment. Out: an answer, and the requests to the supervisor
that it needs (the same that commands send). Nothing here opens a socket, awaits or uses Ray: `actors/http` does that.

`table` lists every route once; `routing` finds one, `openapi` describes them, and the tests go through them.
"""
