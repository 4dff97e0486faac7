"""The drill: a failover rehearsed on the live mirror. Enters: a configuration and a flow; leaves: a report.

It reads live data and never changes it. What it makes on the target has names of its own (`policies/dr/drill.py`), is
recorded before it is made, and is taken away. Imports the packages below `engine.services`, and `engine.services.dr`.
"""
