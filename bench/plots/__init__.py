"""Plots of results: a JSON file of a bench becomes one SVG file. Pure but for `command`, which reads and writes files.

Takes the units of axes from the lag report (`actors.report.units`); no drawing library is needed for bars.
"""
