"""Independent verification and simulation of policies; shares no code with the solvers."""
