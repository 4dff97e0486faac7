"""Services for the loss and the return of a cluster: the failover, previews, the export of what only the source has."""
