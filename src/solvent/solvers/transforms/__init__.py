"""Transformations of problems: rounding, gaps, discounting."""
