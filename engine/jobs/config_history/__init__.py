"""The history of topic configs, as three tables: values, changes of the source, drift of copies."""
