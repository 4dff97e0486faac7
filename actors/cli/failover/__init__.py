"""Commands for the loss of a cluster: failover and translate, with a running mirror or from the target alone."""
