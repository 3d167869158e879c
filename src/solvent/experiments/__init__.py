"""Experiments: the figures of the paper, made again, and what runs them. `solvent paper` is their command line."""
