"""Training under a budget: Solvent's wrappers beside OmniSafe and reward penalties, and learning curves of `learn`.

`python -m bench.training` runs what has no record yet, and renders docs/learning-benchmarks.md from the records.
"""
