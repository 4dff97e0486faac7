"""`history`: size of the stored lag history of many partitions over days, and seconds of the commands that read it."""
