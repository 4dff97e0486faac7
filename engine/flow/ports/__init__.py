"""Ports of the flow: the protocols it needs of a cluster, the values they pass, and the options of each part."""
