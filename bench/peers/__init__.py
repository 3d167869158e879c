"""Comparison with other tools: one definition of each workload, one adapter for each peer, one run on one machine.

Every answer is checked before its time counts: its value against ours, and its policy, if the peer has one, by
`solvent.verify`. `python -m bench.peers` runs everything and writes `docs/benchmarks.md`.
"""
