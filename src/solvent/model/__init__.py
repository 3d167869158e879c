"""Models, budgets, and costs and limits as integers."""
