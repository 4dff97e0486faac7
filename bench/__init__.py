"""One command per published figure: `python -m bench NAME`."""
