"""Tables that a repeated proof keeps: rows and files of what is proven so far."""
