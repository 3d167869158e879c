"""No randomness: label setting with bounds."""
