"""cspy: label setting from both ends on the network itself."""

from __future__ import annotations

import itertools
import time
from typing import Any

import cspy
import networkx
import numpy as np

from bench.peers import workloads
from bench.peers.adapters.base import Adapter, Answer, Built
from bench.peers.workloads import Workload

#: Its names of the first and the last place.
SOURCE, SINK = "Source", "Sink"


class Cspy(Adapter):
    """`BiDirectional` without the constraint that paths are elementary: those of least cost are."""

    title = "cspy"
    package = "cspy"
    about = "`BiDirectional` on the network, for resource-constrained shortest paths"

    def can(self, workload: Workload) -> str | None:
        """Return None for a network, otherwise a reason."""
        return None if workload.family == workloads.RCSP else "no network: it finds shortest paths only"

    def build(self, workload: Workload) -> Built:
        """Write the graph and build the algorithm."""
        began = time.perf_counter()
        network = workloads.network_of(workload)
        graph = networkx.DiGraph(directed=True, n_res=len(network.limits))
        names = {1: SOURCE, network.places: SINK}
        for arc in network.arcs:
            if arc.tail != network.places and arc.head != 1:
                tail, head = names.get(arc.tail, arc.tail), names.get(arc.head, arc.head)
                graph.add_edge(tail, head, res_cost=np.array(arc.used, float), weight=arc.cost)
        most = [float(limit) for limit in network.limits]
        writing = time.perf_counter() - began
        peer = cspy.BiDirectional(graph, most, [0.0] * len(most), elementary=False)
        return Built(peer, network.places, writing=writing, keep=network)

    def solve(self, built: Built) -> Answer:
        """Find the path."""
        built.handle.run()
        return Answer(-float(built.handle.total_cost), built.handle.path)

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy that follows the path."""
        names = {SOURCE: 1, SINK: built.keep.places}
        places = [names.get(place, place) for place in answer.found]
        after = dict(itertools.pairwise(places))
        return lambda step, state, spent: after[state]
