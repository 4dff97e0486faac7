"""The history of lag: samples in the target's topic become windows, recovery points and breaches; queries read them."""
