"""Which copier gets which partitions, how many copiers there are, which one is ill."""
