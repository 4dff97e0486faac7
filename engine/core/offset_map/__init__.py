"""The exact map from source to target offsets: what a lane writes, what a reader looks up, its bytes, its retention."""
