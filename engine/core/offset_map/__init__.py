"""The exact map from source to target offsets: the writer's side, the reader's side, the encoding, the retention."""
