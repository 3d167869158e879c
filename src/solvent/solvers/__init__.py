"""Solution methods, and what turns a budgeted model into a problem they can solve."""
