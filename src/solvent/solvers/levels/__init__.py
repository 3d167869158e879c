"""Least levels: how much must be left of a resource to survive or to reach states, without a horizon."""
