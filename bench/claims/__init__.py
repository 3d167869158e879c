"""The paper's claims about learning, measured: any learner on the augmented MDP, its scaling, and rounded costs.

`python -m bench.claims` runs what has no record yet, and `--page` writes docs/learning-claims.md.
"""
