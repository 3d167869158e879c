"""What the user knows: models, budgets, exact numbers, and the files they live in."""
