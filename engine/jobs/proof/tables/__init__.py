"""Tables that repeated proofs store: what is proven so far, as rows and files."""
