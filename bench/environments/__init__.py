"""Third-party environments under every wrapper and learner that promises never to exceed a budget.

An independent meter directly around each environment counts the episodes over budget. `python -m bench.environments`
plays all of them and writes docs/environments.md.
"""
