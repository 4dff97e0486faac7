"""The control plane, without Ray: decides who copies what, how many copiers run, and what happens when one dies.

In: statuses of copiers and discoveries, through ports. Out: orders to copiers, and the status of the mirror.
"""
