"""Differential fuzzing: random problems, every method, and oracles that share no code with them."""
