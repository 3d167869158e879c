"""Storm on a PRISM model with a counter for the amount spent of each resource.

Storm can also bound costs without a counter, as in `Pmax=? [F{"cost"}<=B "goal"]` or `R{"r"}max=? [C{"cost"}<=B]`. That
is a different question: the first maximizes a probability, the second ends the episode, without a penalty, when the
budget is used up. Neither asks for the best policy among those that never exceed the budget.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import stormpy

from bench.peers.adapters import prism
from bench.peers.adapters.base import Adapter, Answer, Built, is_steady, lattice_of
from bench.peers.workloads import Workload
from solvent.core.exact import MINUS_INFINITY, PLUS_INFINITY
from solvent.model.budget import resolve
from solvent.policy.table import AugmentedPolicy

#: Limit on amounts: it converts counters to doubles.
MOST = 2**53
#: Number of states above which only the value is compared, since reading a scheduler takes long.
MOST_READ = 200_000


class StormCounter(Adapter):
    """Without the step if the model is stationary and has no dead ends, otherwise with the step as a variable."""

    title = "Storm"
    package = "stormpy"
    about = "a PRISM model with counters for amounts spent, sparse engine; without a step counter if possible"
    # the accuracy that its sound methods guarantee
    tolerance = 1e-6

    def can(self, workload: Workload) -> str | None:
        """Return None for constant upper limits and amounts exact in doubles, otherwise a reason."""
        lattice = lattice_of(workload)
        if (lattice.lower_HD != MINUS_INFINITY).any() or (lattice.upper_HD == PLUS_INFINITY).any():
            return "lower or open limits"
        if (lattice.upper_HD != lattice.upper_HD[0]).any():
            return "limits that vary by step"
        reach = workload.problem.horizon * abs(lattice.cost_OD).max() + abs(lattice.upper_HD).max()
        bits = int(reach).bit_length()
        if reach >= MOST:
            return f"amounts of {bits} bits: its counters are doubles, exact to 53 bits"
        return None

    def build(self, workload: Workload) -> Built:
        """Write the program, parse it and explore its states."""
        if is_steady(workload):
            built = _explored(workload, counts_steps=False)
            if built.handle[0].labeling.get_states("deadlock").get_number_of_set_bits() == 0:
                return built
        return _explored(workload, counts_steps=True)

    def solve(self, built: Built) -> Answer:
        """Run the model checker."""
        model, query, program = built.handle
        found = stormpy.model_checking(model, query, only_initial_states=False)
        return Answer(program.value(found.get_value(model.initial_states[0])))

    def policy(self, workload: Workload, built: Built, answer: Answer) -> Any:
        """Return the policy of a scheduler; None for a bounded number of steps, for which Storm returns none."""
        program: prism.Program = built.handle[2]
        if "C<=" in program.query or built.states > MOST_READ:
            return None
        model, query, _ = _explored(workload, counts_steps=True, named=True).handle
        scheduler = stormpy.model_checking(model, query, extract_scheduler=True).get_scheduler()
        names, first = model.choice_labeling, model.nondeterministic_choice_indices
        held = model.state_valuations
        values = {v.name: np.array(held.get_int64_values(v)) for v in held.get_all_variables()}
        values.setdefault("s", np.zeros(model.nr_states, np.int64))  # Storm drops variables with a single value
        problem, lattice = workload.problem, lattice_of(workload)
        action = np.full(model.nr_states, -1)
        for state in range(model.nr_states):
            choice = scheduler.get_choice(state)
            if choice.defined:
                for label in names.get_labels_of_choice(first[state] + choice.get_deterministic_choice()):
                    action[state] = program.actions.get(label, -1)
        spent_ND = np.stack([values[f"x{d}"] for d in range(len(lattice.resources))], 1)
        layers = []
        for h in range(problem.horizon):
            at = np.flatnonzero((values["h"] == h) & (action >= 0))
            layers.append((program.state[values["s"][at]], spent_ND[at], action[at]))
        return AugmentedPolicy.from_nodes(problem, lattice, resolve(problem, None), layers=layers)


def _explored(workload: Workload, *, counts_steps: bool, named: bool = False) -> Built:
    """Return Storm's model; with names of states and choices if it is to be read instead of timed."""
    began = time.perf_counter()
    program = prism.write(workload.problem, lattice_of(workload), counts_steps=counts_steps, stops_falling=not named)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.prism"
        path.write_text(program.text)
        writing = time.perf_counter() - began
        parsed = stormpy.parse_prism_program(str(path))
    [query] = stormpy.parse_properties(program.query, parsed)
    options = stormpy.BuilderOptions([query])
    if named:
        options.set_build_state_valuations(True)
        options.set_build_choice_labels(True)
    model = stormpy.build_model(parsed, options=options)
    return Built((model, query, program), model.nr_states, writing=writing)
