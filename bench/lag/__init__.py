"""The history of lag under a full load of samples: is it kept up with, how late is it, is it right."""
