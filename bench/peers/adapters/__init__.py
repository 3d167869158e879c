"""The peers by name; a peer's package is imported when its adapter is created."""

from __future__ import annotations

import importlib

from bench.peers.adapters.base import Adapter

#: Module and class of each adapter. Solvent comes first, since others are compared with it.
ADAPTERS = {
    "solvent": ("ours", "Solvent"),
    "transcription": ("transcription", "Transcription"),
    "storm": ("storm_counter", "StormCounter"),
    "storm-explicit": ("storm_explicit", "StormExplicit"),
    "quantecon": ("quantecon_induction", "QuantEcon"),
    "mdpsolver": ("mdpsolver_sweeps", "MDPSolver"),
    "highs": ("highs_programs", "Highs"),
    "ortools-knapsack": ("ortools_knapsack", "Knapsack"),
    "ortools-cpsat": ("ortools_cpsat", "CPSAT"),
    "cspy": ("cspy_paths", "Cspy"),
}


def make(name: str) -> Adapter:
    """Return the adapter of a peer.

    Raises
    ------
    KeyError
        If there is no such peer.
    ImportError
        If the peer is not installed.
    """
    if name not in ADAPTERS:
        raise KeyError(f"no peer is called {name!r}; there are {', '.join(ADAPTERS)}")
    module, kind = ADAPTERS[name]
    adapter: Adapter = getattr(importlib.import_module(f"bench.peers.adapters.{module}"), kind)()
    return adapter
