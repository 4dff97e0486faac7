"""The files of exported records. In: records of one partition. Out: lines, and the proof that a file holds them."""
