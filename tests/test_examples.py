"""Every example can be loaded, saved and loaded again, and its budget affects the optimum.

The optimum is computed independently by a recursion over (step, state, spent) in fractions that shares only the model
with the package. A continuous cost is taken at its upper end, which gives a value that a policy can guarantee.
"""

from __future__ import annotations

import dataclasses
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
from effort import slow_after
from solvent.model.budget import resolve

EXAMPLES = Path(solvent.examples.__file__).parent
SCRIPTS = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))

INFEASIBLE = -math.inf

#: Optimum of each example, for the default budget with the limits of one resource loosened by an amount: the upper
#: limits, or the lower ones if there are no others.
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
        ("fuel", -25, 16.2),
        ("fuel", -24, 18.0),
        ("fuel", -18, 32.67549912109375),
        ("fuel", -10, 57.37821975700941),
        ("fuel", -2, 69.8948370920574),
        ("fuel", -1, 71.3780421307231),
        ("fuel", 0, 72.38673147882326),
        ("fuel", 1, 73.39422971372242),
        ("fuel", 2, 74.44098812341079),
        ("fuel", 10, 84.0838632265749),
        ("fuel", 15, 89.09180169361623),
        ("fuel", 30, 96.60062966976749),
    ],
    "dose": [
        ("toxicity", -9, 0.0),
        ("toxicity", -7, 15.58387007016156),
        ("toxicity", -6, 22.910316076371547),
        ("toxicity", -3, 30.328090794099175),
        ("toxicity", -1, 34.11288358142094),
        ("toxicity", 0, 35.88725605938436),
        ("toxicity", "1/2", 36.80773744506838),
        ("toxicity", 1, 37.67320026521802),
        ("toxicity", 3, 40.98508514874202),
        ("toxicity", 6, 45.47610238407798),
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
    "reservoir": [
        ("water", -5, INFEASIBLE),
        ("water", -4, 45.1690682656579),
        ("water", -2, 49.530316317225946),
        ("water", -1, 51.19118411249976),
        ("water", 0, 52.67748499721143),
        ("water", 1, 54.1213170752732),
        ("water", 3, 56.955713284575815),
        ("water", 8, 63.58451915952978),
    ],
    "robot": [
        ("battery", -15, INFEASIBLE),
        ("battery", -6, 0.0),
        ("battery", -5, 8.754003720000002),
        ("battery", -3, 18.902960617610375),
        ("battery", -1, 24.036791082640317),
        ("battery", 0, 25.795829131812106),
        ("battery", 1, 26.548319359600374),
        ("battery", 6, 32.25741792502182),
        ("battery", 16, 43.390470487015875),
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
    ends = [(model.resource(name).floor, model.resource(name).ceiling) for name in limits.resources]
    bounds += [end for pair in ends for end in pair if end is not None]
    scale = math.lcm(*(x.denominator for x in bounds), *(x.denominator for cost in costs for x in cost))
    ticks = [tuple(int(x * scale) for x in cost) for cost in costs]
    upper, lower = (
        [[end if x is None else int(x * scale) for x in per_step] for per_step in zip(*side, strict=True)]
        for side, end in ((limits.upper, math.inf), (limits.lower, -math.inf))
    )
    floor, ceiling = (
        [end if pair[side] is None else int(pair[side] * scale) for pair in ends]
        for side, end in ((0, -math.inf), (1, math.inf))
    )
    final = [0.0] * model.n_states if model.end_reward is None else model.end_reward.tolist()
    if model.may_end is not None:
        final = [value if may else INFEASIBLE for value, may in zip(final, model.may_end.tolist(), strict=True)]
    probability, next_state = model.probability.tolist(), model.next_state.tolist()
    dead_ends = set()

    def outcomes(row):
        return range(int(model.outcome_indptr[row]), int(model.outcome_indptr[row + 1]))

    def after(spent, outcome):
        total = (amount + more for amount, more in zip(spent, ticks[outcome], strict=True))
        return tuple(min(max(x, low), high) for x, low, high in zip(total, floor, ceiling, strict=True))

    def within(step, spent):
        return all(low <= x <= high for low, x, high in zip(lower[step], spent, upper[step], strict=True))

    @cache
    def best(step, state, spent):
        if step == model.horizon or model.is_terminal(step, state):
            return final[state], None
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

    starts = [(state, (0,) * len(limits.resources)) for state in model.start_states.tolist()]
    value = sum(p * best(0, *start)[0] for p, start in zip(model.start_probability.tolist(), starts, strict=True))
    done, layer = set(), set(starts) if value > INFEASIBLE else set()
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
    """Return the default budget of a model with the upper limits of a resource moved, or else its lower ones."""

    def shifted(side, by):
        if isinstance(side, tuple):
            return [None if limit is None else limit + by for limit in side]
        return side + by

    budget = dict(model.budget)
    old = budget[resource]
    if old.upper is None:
        budget[resource] = solvent.Budget(lower=shifted(old.lower, -Fraction(by)))
    else:
        budget[resource] = solvent.Budget(upper=shifted(old.upper, Fraction(by)), lower=old.lower)
    return budget


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@cache
def example(name):
    return solvent.load_model(EXAMPLES / f"{name}.yaml")


@cache
def optimum_of(name):
    """Return what `optimum` returns for an example with its own budget."""
    return optimum(example(name), resolve(example(name), None))


@pytest.fixture
def model(name):
    return example(name)


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


def known(name):
    """Return the optima of an example, those for a budget close to its own first."""
    return sorted(((name, *each) for each in OPTIMA[name]), key=lambda each: abs(Fraction(each[2])))


@pytest.mark.parametrize(
    ("example_name", "resource", "by", "value"), [each for name in NAMES for each in slow_after(3, known(name))]
)
def test_its_optimum_is_known(example_name, resource, by, value):
    model = example(example_name)
    assert optimum(model, resolve(model, moved(model, resource, by)))[0] == pytest.approx(value, rel=1e-12)


def test_its_budget_can_be_kept_and_binds(name, model):
    default = optimum_of(name)[0]
    assert default > INFEASIBLE
    for resource in model.resources:
        values = {Fraction(by): value for of, by, value in OPTIMA[name] if of == resource}
        assert values[Fraction(0)] == pytest.approx(default, rel=1e-12)
        in_order = [values[by] for by in sorted(values)]
        assert in_order == sorted(set(in_order)), f"more {resource} should be worth more"
        assert min(values) < 0 < max(values)


def test_its_decisions_depend_on_what_was_spent(name):
    _, done, _ = optimum_of(name)
    assert len(done) > len({(step, state) for step, state, _ in done}), "one action per step and state would do"


def test_the_drone_has_dead_ends_that_are_not_terminal():
    model = example("drone")
    _, _, dead_ends = optimum_of("drone")
    assert any(model.states[state] == "gorge" for _, state, _ in dead_ends)
    assert not any(model.is_terminal(step, state) for step in range(model.horizon) for state in range(model.n_states))


def test_rounded_costs_enclose_its_optimum(name, model):
    value = optimum_of(name)[0]
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
    with pytest.raises(
        solvent.ModelError, match=r'solve with gap=0\.01, or approximation="additive" with epsilon= and strict=True'
    ):
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


def test_the_robot_is_written_by_its_function(tmp_path, monkeypatch):
    from solvent.cli import main

    monkeypatch.chdir(SCRIPTS.parent)
    assert main(["convert", "examples/robot.py:make_model", str(tmp_path / "robot.yaml"), "--json"]) == 0
    written = (tmp_path / "robot.yaml").read_text(encoding="utf-8")
    shipped = (EXAMPLES / "robot.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    assert "".join(line for line in shipped if not line.startswith("#")) == written
    assert main(["convert", "examples/robot.py:make_model", str(tmp_path / "r.npz"), "--set", "size=7", "--json"]) == 0
    assert solvent.load_model(tmp_path / "r.npz").n_states == 49


@pytest.mark.slow
def test_the_accounts_of_the_examples_matter():
    """A floor, a ceiling, a goal or an end reward that made no difference would show nothing."""
    for name, without in (
        ("delivery-van", {"floors": (None,)}),
        ("robot", {"floors": (None,)}),
        ("robot", {"may_end": None}),
        ("dose", {"floors": (None,)}),
        ("dose", {"end_reward": None}),
        ("reservoir", {"ceilings": (None,)}),
    ):
        model = example(name)
        changed = dataclasses.replace(model, **without)
        assert optimum(changed, resolve(model, None))[0] != pytest.approx(optimum_of(name)[0], rel=1e-6), (
            name,
            without,
        )


def test_the_shop_that_stays_shut_spends_exactly_its_last_limit():
    model = solvent.load_model(EXAMPLES / "cash-line.yaml")
    shut = model.rows(0, model.start_index)[0]
    (rent,) = (outcome.cost["cash"] for outcome in model.outcomes(shut))
    assert rent * model.horizon == resolve(model, None).upper[0][-1] == 3


def test_the_first_steps_can_be_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPTS / "first_steps.py"), run_name="__main__")
    assert "days over budget 0" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "van-frontier.png",
        "van-spending.png",
        "van.policy",
    ]
