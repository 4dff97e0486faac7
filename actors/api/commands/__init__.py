"""The commands of the command line as routes of `/api/v1`: which route has which command, and what it answers.

In: a request and a view of the mirror. Out: the words of a command that runs in a process of its own, and its output
as an answer. `coverage` has the row of every command, or the reason why it has no route; `look_words` alone knows which
command a look runs, `pages` what such commands print and the routes answer.
"""
