"""Bounds on amounts: doomed and settled nodes."""
