"""The history of lag: turns samples on the target's topic into windows and breaches, and summarizes them."""
