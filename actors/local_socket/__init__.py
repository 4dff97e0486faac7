"""A Unix socket of the supervisor, for commands on its own machine: they need not start a Ray driver to ask.

`folder` says where sockets are and who may use them, `frames` what goes over one, `server` is the supervisor's end,
`client` a command's. Importing this package imports no Ray. Whoever cannot reach a mirror this way asks through Ray.
"""
