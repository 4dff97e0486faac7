"""The typed interface of a mirror, `/api/v1`: state, series and live events, with units in the names of all fields.

In: the parts of a request, and a view of the mirror at that moment. Out: an answer, and the requests to the supervisor
that it needs. Nothing here opens a socket or uses Ray: `actors/http` does that. It uses the routes of `actors/rest`.

`entities` has the bodies of answers, `table` the routes. `orders` alone knows which command a request starts, `runs`
what became of it; `commands` has the looks that are commands, and the row of every command. docs/api.md describes them
for users.
"""
