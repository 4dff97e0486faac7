"""The ACLs that a mirror needs: what a broker asks for each request, and which feature sends which request where.

`requests.py` has a row for each request that raymirror sends, `features.py` one for each feature. `planning.py` turns
both into the grants of one configuration, `commands.py` writes them as calls of `kafka-acls`, and `page.py` writes
docs/grants.md. No module here imports anything but policies.
"""
