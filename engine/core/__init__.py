"""Events in, actions out: the decisions of the copy, without await, clock or log."""
