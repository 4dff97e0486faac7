"""Jobs on the Spark of a running mirror, as a command or the demo gives them to it: submitted, followed, cancelled."""
