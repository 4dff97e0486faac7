"""The command `raymirror quarantine`: refused records that were left out of a copy."""
