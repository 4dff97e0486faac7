"""Ranges of offsets: where they begin and end, which were asked for, have arrived, or were fetched in vain.

In: answers, as bytes in memory that their lease owns. Out: the next range to ask for, the next one to take in. Imports
ports and `engine.wire`; opens no connection and knows no lane. `engine.flow.io.range_reader` asks and delivers.
"""
