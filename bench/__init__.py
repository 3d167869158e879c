"""Measurements: peers side by side, the distance to what the machine can do, and a guard against getting slower."""
