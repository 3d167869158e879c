"""Experiments: the figures of the paper, reproduced, and what runs them. `solvent paper` is their command line."""
