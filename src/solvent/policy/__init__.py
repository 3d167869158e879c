"""Using policies: tables of decisions, agents that follow them, and derandomization."""
