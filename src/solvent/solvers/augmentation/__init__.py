"""The augmented MDP on nodes."""
