"""Doubting policies: exact verification and simulation, with nothing of the planner."""
