"""Boxes of amounts: values of several resources swept as dense arrays."""
