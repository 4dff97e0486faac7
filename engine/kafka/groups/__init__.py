"""Lists and describes consumer groups and commits for them, also while some brokers are unreachable."""
