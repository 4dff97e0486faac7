"""Commands for the loss and the return of a cluster, beside `failover`: previews of both."""
