"""Finding policies: exact methods, and what they share."""
