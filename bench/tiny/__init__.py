"""The bench `tiny`: copies of small records in small batches. Imports bench's other modules; data enters through the
brokers that `bench.rounds` starts.
"""
