"""Merging equal outcomes and pooling independent costs."""
