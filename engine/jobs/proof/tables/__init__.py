"""The tables that proofs store: what is proven so far, and what differs."""
