"""Commands of a disaster: failover and translate, with the mirror or from the target alone."""
