"""One resource: value functions over the remaining budget, as points or arrays."""
