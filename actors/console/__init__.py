"""The console: a page in a browser that shows a mirror, and the sessions of those who use it.

In: requests of a browser below `/console`. Out: the files of `static/`, which are all that the browser loads, and
answers about sessions. What the page shows comes from the API, as everybody else gets it. `files` has the static files
and their headers, `sessions` the sessions and one-time tokens, `entering` answers who logs in and out, `table` lists
the routes. It imports no loop, no Ray and no server: `actors/http` serves it.
"""
