"""The control plane, without Ray: decides which copier has which set, how many run, and what replaces a dead one.

In: reports of copiers and discoveries, through ports. Out: orders to copiers, and the status of the mirror.
"""
