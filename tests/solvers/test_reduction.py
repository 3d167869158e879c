"""The reduction's layers are the paper's (Algorithm 5), and leaving nodes out of them changes no answer."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catalog
import oracle
import strategies
from effort import draws
from solvent.core import threads
from solvent.core.jit import KERNELS, compiled_kernels
from solvent.core.limits import ResourceMonitor
from solvent.model import instances
from solvent.model.budget import resolve
from solvent.model.lattice import Lattice
from solvent.solvers.bounds.bounds import bounds_of
from solvent.solvers.problem import Problem
from solvent.solvers.reduction import kernels, steps
from solvent.solvers.reduction.arrays import LayerNodes
from solvent.solvers.reduction.forward import forward
from solvent.solvers.reduction.layers import NodeLayer
from solvent.solvers.reduction.reduce import reduce
from solvent.solvers.solve import solve


def paper_layers(model, budget):
    """Return the sets of Algorithm 5, from S_1 to S_{H+1}, as sets of (state, spent)."""
    problem = oracle.Problem(model, budget)
    layers = [{(problem.start, problem.nothing)}]
    for step in range(problem.horizon):
        following = set()
        for state, spent in layers[-1]:
            for row in problem.rows(step, state):
                if problem.safe(step, spent, row):
                    following |= {(after, then) for _, after, then in problem.arrivals(spent, row)}
        layers.append(following)
    return layers


def feasible_layers(model, budget):
    """Return the sets F_1 to F_{H+1}: what policies that keep the budget can come to, by brute force."""
    problem = oracle.Problem(model, budget)
    nodes = oracle.Nodes(problem)
    start = (problem.start, problem.nothing)
    layers = [{start} if nodes.value(0, *start) != oracle.INFEASIBLE else set()]
    for step in range(problem.horizon):
        following = set()
        for state, spent in layers[-1]:
            for row in nodes.viable_rows(step, state, spent):
                following |= {(after, then) for _, after, then in problem.arrivals(spent, row)}
        layers.append(following)
    return layers


def found_layers(model, budget, *, prune=False):
    """Return the reduction's layers as sets of (state, spent)."""
    limits = resolve(model, budget)
    lattice = Lattice.fit(model, limits)
    found = reduce(model, lattice, ResourceMonitor(), prune=prune)
    return [
        {
            (model.states[state], tuple(lattice.amount(d, ticks) for d, ticks in enumerate(spent)))
            for state, spent in zip(layer.state.tolist(), layer.spent.tolist(), strict=True)
        }
        for layer in found.layers
    ]


def sizes(layers):
    return tuple(len(layer) for layer in layers)


def diversity(layers):
    return max(len({spent for _, spent in layer}) for layer in layers)


@given(strategies.problems(terminals=False))
@draws(100)
def test_layers_are_the_papers(tiny):
    expected = paper_layers(tiny.model, tiny.budget)[: tiny.model.horizon]
    solution = solve(tiny.model, tiny.budget, method="reduction", prune=False)
    assert solution.stats.layer_sizes == sizes(expected)
    assert solution.stats.nodes == sum(sizes(expected))
    assert found_layers(tiny.model, tiny.budget) == expected


@given(strategies.problems("number", min_resources=1))
@draws(50)
def test_layers_are_the_papers_where_episodes_may_end(tiny):
    expected = paper_layers(tiny.model, tiny.budget)[: tiny.model.horizon]
    assert found_layers(tiny.model, tiny.budget) == expected


def test_cost_diversity_counts_amounts_and_not_nodes():
    model = instances.fuel_grid(3, horizon=6)
    layers = paper_layers(model, None)[: model.horizon]
    stats = solve(model, method="reduction", prune=False).stats
    assert stats.layer_sizes == sizes(layers)
    assert max(sizes(layers)) > diversity(layers)
    assert diversity(layers) <= stats.cost_diversity <= diversity(paper_layers(model, None))


def test_cost_diversity_counts_amounts_after_the_last_step():
    """`def: diversity` takes the maximum over h from 1 to H + 1: also over what has been spent in the end."""
    model = instances.knapsack([1, 1, 1], [1, 2, 4], capacity=7)
    assert diversity(paper_layers(model, None)) == 8
    assert solve(model, method="reduction", prune=False).stats.cost_diversity == 8


@given(strategies.models(min_resources=1, rest=True, terminals=False), st.data())
@draws(60)
def test_layers_are_what_feasible_policies_reach_if_resting_is_free(model, data):
    """The equality of Lemma 2 (`lem: feasibility`), for budgets that resting from the start keeps."""
    limits = st.sampled_from([limit for limit in strategies.LIMITS if limit >= 0])
    budget = {name: data.draw(limits) for name in model.resources}
    expected = feasible_layers(model, budget)
    assert paper_layers(model, budget) == expected
    assert found_layers(model, budget) == expected[: model.horizon]


@given(strategies.problems(terminals=False))
@draws(60)
def test_layers_hold_what_feasible_policies_reach(tiny):
    """The inclusion of Lemma 2, for any limits."""
    for mine, needed in zip(
        found_layers(tiny.model, tiny.budget), feasible_layers(tiny.model, tiny.budget), strict=False
    ):
        assert mine >= needed


def test_layers_may_hold_more_if_resting_is_not_free():
    model = instances.partition([3, 1, 1, 3])
    assert sizes(feasible_layers(model, None)[:4]) == (1, 2, 4, 2)
    assert solve(model, method="reduction", prune=False).stats.layer_sizes == (1, 2, 4, 4)


@pytest.mark.parametrize("resources", [1, 2])
@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("horizon", [2, 4])
def test_diversity_is_bounded_by_precision(horizon, bits, resources):
    """Lemma 4 (`lem: precision`): D <= H^d 2^((k + 1) d) for costs of k bits."""
    most = 2**bits - 1
    model = instances.random(
        4, 4, horizon=horizon, resources=resources, cost_range=(-most, most), budget=most * horizon, stationary=False
    )
    found = solve(model, method="reduction", prune=False).stats.cost_diversity
    assert 1 < found <= horizon**resources * 2 ** ((bits + 1) * resources)


@given(strategies.problems())
@draws(60)
def test_pruning_only_leaves_out(tiny):
    pruned = solve(tiny.model, tiny.budget, method="reduction")
    plain = solve(tiny.model, tiny.budget, method="reduction", prune=False)
    assert pruned.value == pytest.approx(plain.value, rel=1e-9)
    for fewer, more in zip(pruned.stats.layer_sizes, plain.stats.layer_sizes, strict=True):
        assert fewer <= more
    assert pruned.stats.cost_diversity is None
    assert plain.stats.cost_diversity >= 1


def test_pruning_leaves_out_a_lot():
    model = instances.fuel_grid(4, tank=12)
    pruned, plain = (solve(model, method="reduction", prune=prune).stats.nodes for prune in (True, False))
    assert 2 * pruned < plain


def test_doomed_nodes_are_left_out():
    model = catalog.ridge()
    plain, pruned = (
        {state for layer in found_layers(model, None, prune=prune) for state, _ in layer} for prune in (False, True)
    )
    assert plain - pruned == {(1, 0), (2, 0)}


def test_settled_resources_are_struck():
    model = instances.paper(10, seed=4, budget=100)
    assert solve(model, method="reduction").stats.layer_sizes == (1,) * 10
    assert solve(model, method="reduction", prune=False).stats.layer_sizes == tuple(2**h for h in range(10))


@pytest.mark.parametrize(
    "model",
    [
        instances.fuel_grid(4),
        instances.paper(11, seed=2, budget=3),
        instances.random(4, 3, horizon=5, resources=2, budget=9, cost_range=(-1, 3), stationary=False, seed=3),
    ],
    ids=lambda model: model.name,
)
@pytest.mark.parametrize("prune", [True, False])
def test_large_layers_run_on_all_threads(model, prune, monkeypatch):
    expected = solve(model, method="reduction", prune=prune)
    ranges = []
    choose_rows = kernels.choose_rows

    def noted(begin, end, *arrays):
        ranges.append((begin, end))
        choose_rows(begin, end, *arrays)

    monkeypatch.setattr(steps, "PARALLEL_FROM", 0)
    monkeypatch.setattr(kernels, "choose_rows", noted)
    monkeypatch.setattr(threads, "_threads", 3)
    found = solve(model, method="reduction", prune=prune)
    # the ranges of each step are all of its states
    assert sum(end - begin for begin, end in ranges) == model.horizon * model.n_states
    assert len(ranges) > model.horizon or model.n_states == 1
    assert found.value == expected.value
    assert found.stats.layer_sizes == expected.stats.layer_sizes
    assert list(found.policy) == list(expected.policy)


def test_a_layer_above_the_threshold_is_large(monkeypatch):
    runs = []
    usual = steps.run_by_states
    monkeypatch.setattr(steps, "run_by_states", lambda *arguments: (runs.append(1), usual(*arguments)))
    model = instances.paper(16, seed=1, budget=6)
    solution = solve(model, method="reduction", prune=False)
    assert sum(size >= steps.PARALLEL_FROM for size in solution.stats.layer_sizes) == len(runs) > 0
    assert solution.value == pytest.approx(solve(model, method="frontier").value, rel=1e-9)


def task(h, prune=True):
    """Return arrays of a problem from which the layer after step h can be computed, and that layer."""
    model = instances.random(4, 3, horizon=5, resources=2, budget=9, cost_range=(-1, 3), stationary=False, seed=3)
    lattice, monitor = Lattice.fit(model, resolve(model, None)), ResourceMonitor()
    arrays = steps.StepArrays(model, lattice, bounds_of(model, lattice, monitor, prune=prune), monitor)
    layers = forward(arrays, monitor)
    inputs = (layers[h].part(0, len(layers[h])), arrays.arrays, arrays.costs, arrays.at(h), arrays.independent)
    return inputs, arrays.index(h + 1), arrays.marks, layers[h + 1]


def run_task(inputs, after, marks):
    """Return the layer that safe rows of a layer lead to."""
    kernels.mark(0, len(inputs[0].indptr) - 1, *inputs, after, marks, np.zeros(1, bool))
    count = kernels.count_marks(marks)
    found = LayerNodes(np.empty_like(inputs[0].indptr), np.empty((count, inputs[0].spent_ND.shape[1]), np.int64))
    kernels.collect(marks, after.grid, found)
    return NodeLayer(*found)


@pytest.mark.slow
def test_a_layer_can_be_computed_in_another_process():
    inputs, after, marks, expected = task(2)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(run_task, inputs, after, marks).result()
    assert len(found) > 1
    assert found.indptr.tolist() == expected.indptr.tolist()
    assert found.spent.tolist() == expected.spent.tolist()


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_parts_of_a_problem_can_be_pickled(protocol):
    model = instances.fuel_grid(3)
    problem = Problem.exact(model, resolve(model, None))
    found = reduce(problem.model, problem.lattice, ResourceMonitor())
    other, same = pickle.loads(pickle.dumps((problem, found), protocol))
    again = reduce(other.model, other.lattice, ResourceMonitor())
    assert again.value == found.value == same.value
    for mine, theirs in zip(same.layers, again.layers, strict=True):
        assert mine.indptr.tolist() == theirs.indptr.tolist()
        assert mine.spent.tolist() == theirs.spent.tolist()
    for mine, theirs in zip([*same.bounds, *same.rows], [*again.bounds, *again.rows], strict=True):
        assert (mine == theirs).all()


@pytest.mark.skipif(not KERNELS, reason="compilation is disabled")
def test_copies_need_no_further_compilation():
    """Copies of read-only arrays may be written to, and kernels are compiled for named tuples of one or the other."""
    model = instances.fuel_grid(3)
    solve(model, method="reduction")
    before = len(compiled_kernels())
    duplicate = copy.deepcopy(model)
    assert duplicate.probability.flags.writeable
    assert solve(duplicate, method="reduction").value == solve(model, method="reduction").value
    assert compiled_kernels()[before:] == []
