"""The page that `raymirror report` writes: one file, which needs no network."""
