"""Policies: tables of decisions, agents that follow them, policy files, and derandomization."""
