"""`translation`: exactness of the target offsets that each system gives consumer groups, judged by the records."""
