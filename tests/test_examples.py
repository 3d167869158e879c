"""Every example can be loaded, saved and loaded again, and its budget affects the optimum.

The optimum is computed independently by a recursion over (step, state, spent) in fractions that shares only the model
with the package. A continuous cost is taken at its upper end, which gives a value that a policy can guarantee.
"""

from __future__ import annotations

import json
import math
import runpy
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

import solvent
from solvent.model.budget import resolve

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))

INFEASIBLE = -math.inf

#: Optimum of each example, for the default budget with the upper limits of one resource shifted by an amount.
OPTIMA = {
    "campaign": [
        ("money", -30, 8.0),
        ("money", -20, 17.6634987671875),
        ("money", -10, 27.80271874375),
        ("money", -5, 32.61305248125),
        ("money", -1, 36.572782437499995),
        ("money", 0, 36.787278099999995),
        ("money", 1, 37.498596003125),
        ("money", 5, 40.767193187500006),
        ("money", 10, 44.30375545),
        ("money", 20, 49.5902076),
    ],
    "cash-line": [
        ("cash", -2, INFEASIBLE),
        ("cash", -1, 22.80864197530864),
        ("cash", "-1/3", 23.959876543209873),
        ("cash", 0, 24.09722222222222),
        ("cash", "1/3", 24.421296296296294),
        ("cash", 1, 24.76971879286694),
        ("cash", 2, 25.023834019204386),
        ("cash", 3, 25.060185185185183),
    ],
    "covering": [
        ("grain", -8, INFEASIBLE),
        ("grain", -6, 24.511227509642307),
        ("grain", -4, 28.604928533583607),
        ("grain", -2, 32.327160257300704),
        ("grain", -1, 34.0856577137835),
        ("grain", 0, 35.77236463215151),
        ("grain", 1, 37.39177899475959),
        ("grain", 2, 39.00341422915315),
        ("grain", 3, 40.67731550629841),
        ("grain", 12, 55.01339953241157),
    ],
    "delivery-van": [
        ("fuel", -31, INFEASIBLE),
        ("fuel", -30, 12.0),
        ("fuel", -27, 27.23337045989532),
        ("fuel", -24, 40.793044437745),
        ("fuel", -18, 48.173170799122495),
        ("fuel", -10, 58.02665333888699),
        ("fuel", -2, 69.89973967414652),
        ("fuel", -1, 71.38285642962029),
        ("fuel", 0, 72.38982793479515),
        ("fuel", 1, 73.39625738501383),
        ("fuel", 2, 74.44098812341079),
        ("fuel", 10, 84.0838632265749),
        ("fuel", 15, 89.09180169361625),
        ("fuel", 30, 96.6006296697675),
    ],
    "dose": [
        ("toxicity", -7, 2.4672879895866),
        ("toxicity", -6, 18.97247296346559),
        ("toxicity", -3, 25.677844275512562),
        ("toxicity", -1, 29.02044447694318),
        ("toxicity", 0, 30.81369007402866),
        ("toxicity", "1/2", 31.667761772921477),
        ("toxicity", 1, 32.49475872665823),
        ("toxicity", 3, 35.57763163296919),
        ("toxicity", 6, 39.7497959817398),
    ],
    "drone": [
        ("battery", -10, 4.611840000000001),
        ("battery", -6, 21.824640000000006),
        ("battery", -2, 28.8824),
        ("battery", -1, 28.984),
        ("battery", 0, 29.363200000000003),
        ("battery", 1, 29.460000000000004),
        ("battery", 2, 30.366400000000002),
        ("battery", 4, 30.599400000000003),
        ("battery", 10, 39.800000000000004),
        ("risk", "-0.5", 17.4),
        ("risk", "-0.2", 25.448),
        ("risk", "-0.05", 27.300000000000004),
        ("risk", 0, 29.363200000000003),
        ("risk", "0.05", 31.760000000000005),
        ("risk", "0.1", 33.61012),
        ("risk", "0.5", 48.262365),
        ("risk", 1, 55.784940000000006),
    ],
}


def optimum(model, limits):
    """Return the optimal value, what an optimal policy may come to do, and the nodes with no safe action.

    What it does is a set of (step, state, action); amounts are whole multiples of the least common denominator.
    """
    costs = [
        tuple(upper_end(model.cost_of(model.resource_index(name), o)) for name in limits.resources)
        for o in range(model.n_outcomes)
    ]
    bounds = [x for side in (limits.upper, limits.lower) for per_step in side for x in per_step if x is not None]
    scale = math.lcm(*(x.denominator for x in bounds), *(x.denominator for cost in costs for x in cost))
    ticks = [tuple(int(x * scale) for x in cost) for cost in costs]
    upper, lower = (
        [[end if x is None else int(x * scale) for x in per_step] for per_step in zip(*side, strict=True)]
        for side, end in ((limits.upper, math.inf), (limits.lower, -math.inf))
    )
    probability, next_state = model.probability.tolist(), model.next_state.tolist()
    dead_ends = set()

    def outcomes(row):
        return range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))

    def after(spent, outcome):
        return tuple(amount + more for amount, more in zip(spent, ticks[outcome], strict=True))

    def within(step, spent):
        return all(low <= x <= high for low, x, high in zip(lower[step], spent, upper[step], strict=True))

    @cache
    def best(step, state, spent):
        if step == model.horizon or model.is_terminal(step, state):
            return 0.0, None
        value, row = max((worth(step, row, spent), row) for row in model.rows(step, state))
        if value == INFEASIBLE:
            dead_ends.add((step, state, spent))
        return value, row

    def worth(step, row, spent):
        following = [(o, after(spent, o)) for o in outcomes(row)]
        if not all(within(step, then) for _, then in following):
            return INFEASIBLE
        later = sum(probability[o] * best(step + 1, next_state[o], then)[0] for o, then in following)
        return float(model.row_reward[row]) + later

    start = (model.start_index, (0,) * len(limits.resources))
    value, _ = best(0, *start)
    done, layer = set(), {start} if value > INFEASIBLE else set()
    for step in range(model.horizon):
        following = set()
        for state, spent in layer:
            row = best(step, state, spent)[1]
            if row is not None:
                done.add((step, state, int(model.row_action[row])))
                following |= {(next_state[o], after(spent, o)) for o in outcomes(row)}
        layer = following
    return value, done, dead_ends


def upper_end(cost):
    return cost if isinstance(cost, Fraction) else cost.high


def moved(model, resource, by):
    """Return the default budget of a model with the upper limits of a resource moved."""
    budget = dict(model.budget)
    old = budget[resource]
    upper = old.upper
    if isinstance(upper, tuple):
        upper = [None if limit is None else limit + Fraction(by) for limit in upper]
    else:
        upper += Fraction(by)
    budget[resource] = solvent.Budget(upper=upper, lower=old.lower)
    return budget


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    return solvent.load_model(EXAMPLES / f"{name}.yaml")


def test_each_example_has_its_answers():
    assert sorted(OPTIMA) == NAMES
    assert len(NAMES) >= 6


def test_it_tells_its_story(name, model):
    assert (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")
    assert model.name == name
    assert len(model.description) > 60
    assert model.budget is not None


def test_it_fits_the_published_schema(name):
    schema = json.loads(files("solvent.formats").joinpath("model.schema.json").read_text(encoding="utf-8"))
    document = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize("ending", ["yaml", "json", "npz"])
def test_it_survives_a_round_trip(name, model, ending, tmp_path):
    model.save(tmp_path / f"{name}.{ending}")
    again = solvent.load_model(tmp_path / f"{name}.{ending}")
    assert again == model
    assert again.fingerprint == model.fingerprint


def test_its_optimum_is_known(name, model):
    for resource, by, value in OPTIMA[name]:
        limits = resolve(model, moved(model, resource, by))
        assert optimum(model, limits)[0] == pytest.approx(value, rel=1e-12), (resource, by)


def test_its_budget_can_be_kept_and_binds(name, model):
    default = optimum(model, resolve(model, None))[0]
    assert default > INFEASIBLE
    for resource in model.resources:
        values = {Fraction(by): value for of, by, value in OPTIMA[name] if of == resource}
        assert values[Fraction(0)] == pytest.approx(default, rel=1e-12)
        in_order = [values[by] for by in sorted(values)]
        assert in_order == sorted(set(in_order)), f"more {resource} should be worth more"
        assert min(values) < 0 < max(values)


def test_its_decisions_depend_on_what_was_spent(model):
    _, done, _ = optimum(model, resolve(model, None))
    assert len(done) > len({(step, state) for step, state, _ in done}), "one action per step and state would do"


def test_the_drone_has_dead_ends_that_are_not_terminal():
    model = solvent.load_model(EXAMPLES / "drone.yaml")
    _, _, dead_ends = optimum(model, resolve(model, None))
    assert any(model.states[state] == "gorge" for _, state, _ in dead_ends)
    assert not any(model.is_terminal(step, state) for step in range(model.horizon) for state in range(model.n_states))


def test_rounded_costs_enclose_its_optimum(name, model):
    value = optimum(model, resolve(model, None))[0]
    epsilon = {limit: Fraction(1, 4) for limit in resolve(model, None).resources}
    relaxed = solvent.solve(model, approximation="additive", epsilon=epsilon)
    strict = solvent.solve(model, approximation="additive", epsilon=epsilon, strict=True)
    assert relaxed.value >= value - 1e-9
    assert strict.value <= relaxed.value + 1e-9
    if not model.has_continuous_costs:
        assert strict.value <= value + 1e-9
    for solution, slack in ((relaxed, Fraction(1, 4)), (strict, 0)):
        report = solvent.verify(model, solution.policy)
        assert report.value == pytest.approx(solution.value)
        assert all(excess <= slack for excess in solution.excess.values())
        assert report.feasible == (not any(solution.excess.values()))


def test_the_campaign_can_be_planned():
    model = solvent.load_model(EXAMPLES / "campaign.yaml")
    with pytest.raises(solvent.ModelError, match='use gap=, or approximation="additive" or "relative"'):
        solvent.solve(model)
    relaxed, strict = (
        solvent.solve(model, approximation="relative", epsilon="1/60", strict=strict) for strict in (False, True)
    )
    # tracking true spending is worth far more than planning for the largest cost of each week, which gives 36.8
    assert 46.0 < strict.value < relaxed.value < 46.3
    assert strict.worst_spent["money"] == 30 < relaxed.worst_spent["money"] <= Fraction(61, 2)
    runs = solvent.simulate(model, strict.policy, episodes=20_000, seed=1)
    assert runs.violations == 0
    assert abs(runs.mean_reward - strict.value) < 5 * runs.standard_error


def test_the_campaign_is_continuous_and_bounded():
    model = solvent.load_model(EXAMPLES / "campaign.yaml")
    assert model.has_continuous_costs
    low, high = model.cost_range(0)
    assert (low, high) == (-4, 10)


def test_the_shop_that_stays_shut_spends_exactly_its_last_limit():
    model = solvent.load_model(EXAMPLES / "cash-line.yaml")
    shut = model.rows(0, model.start_index)[0]
    (rent,) = (outcome.cost["cash"] for outcome in model.outcomes(shut))
    assert rent * model.horizon == resolve(model, None).upper[0][-1] == 3


def test_the_first_steps_can_be_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "first_steps.py"), run_name="__main__")
    assert "days over budget 0" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "van-frontier.png",
        "van-spending.png",
        "van.policy",
    ]
