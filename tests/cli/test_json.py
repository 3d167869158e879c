"""`--json`: one object, exact amounts as text, and stable fields."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
from shell import EXAMPLES, run

import solvent

HEAD = {"command", "version"}
MODEL = {"name", "fingerprint"}


def keys(record: object) -> set[str]:
    assert isinstance(record, dict)
    return set(record)


def test_info(folder: Path) -> None:
    record = run("solvent info cash-line.yaml --json").json
    assert keys(record) == HEAD | {
        *(
            "model",
            "description",
            "horizon",
            "discount",
            "tables",
            "states",
            "terminal_states",
            "actions",
            "rows",
            "outcomes",
        ),
        *("start", "end_reward", "must_end_in", "diversity_bound_log2", "resources"),
    }
    assert keys(record["model"]) == MODEL
    assert (record["start"], record["end_reward"], record["must_end_in"]) == ("empty", [], None)
    (cash,) = record["resources"]
    assert keys(cash) == {"name", "low", "high", "unit", "bits", "continuous", "floor", "ceiling", "budget"}
    assert (cash["low"], cash["high"], cash["unit"], cash["continuous"]) == ("-4", "7", "1/3", False)
    assert record["version"] == solvent.__version__


def test_info_of_accounts(folder: Path) -> None:
    b = solvent.CMDP.builder(
        horizon=2,
        start={"a": 0.25, (1, "b"): 0.75},
        resources=[solvent.Resource("fuel", floor="1/3"), solvent.Resource("heat", ceiling=2)],
        end_reward={"a": -1, (1, "b"): 2.5},
        must_end_in=[(1, "b")],
    )
    b.add("a", "go", outcomes=[(1, (1, "b"), [1, 0])])
    b.add((1, "b"), "go", outcomes=[(1, "a", [1, 0])])
    b.build().save(folder / "accounts.npz")
    record = run("solvent info accounts.npz --json").json
    assert record["start"] == [{"state": "a", "probability": 0.25}, {"state": [1, "b"], "probability": 0.75}]
    assert record["end_reward"] == [{"state": "a", "reward": -1}, {"state": [1, "b"], "reward": 2.5}]
    assert record["must_end_in"] == [[1, "b"]]
    ends = [(each["name"], each["floor"], each["ceiling"]) for each in record["resources"]]
    assert ends == [("fuel", "1/3", None), ("heat", None, "2")]
    text = run("solvent info accounts.npz").out
    assert "start           a (0.25), (1, 'b') (0.75)" in text
    assert "end reward      a -1, (1, 'b') 2.5" in text
    assert "must end in     (1, 'b')\n" in text


SOLVE = HEAD | {
    *("model", "status", "value", "value_lower", "value_upper", "gap", "worst_spent", "worst_is_exact", "excess"),
    *(
        "limits",
        "initial",
        "method",
        "approximation",
        "message",
        "diagnosis",
        "rounds",
        "stats",
        "written",
        "interrupted",
        "value_checked",
    ),
}


@pytest.mark.parametrize("name", ["cash-line", "covering", "delivery-van", "dose", "drone"])
def test_solve_says_what_the_library_says(name: str, folder: Path) -> None:
    done = run(f"solvent solve {name}.yaml --json --out {name}.policy")
    record = done.json
    assert done.code == 0
    assert done.err == ""
    assert keys(record) == SOLVE
    model = solvent.load_model(EXAMPLES / f"{name}.yaml")
    solution = solvent.solve(model)
    assert record["model"] == {"name": name, "fingerprint": model.fingerprint}
    assert record["status"] == "optimal"
    assert (record["value"], record["value_lower"], record["value_upper"]) == (
        solution.value, solution.value_lower, solution.value_upper,
    )  # fmt: skip
    assert record["value_lower"] <= record["value"] <= record["value_upper"] <= record["value_lower"] * (1 + 1e-9)
    assert record["gap"] == 0
    assert record["value_checked"] is True
    assert {key: Fraction(text) for key, text in record["worst_spent"].items()} == dict(solution.worst_spent)
    assert record["interrupted"] is False
    assert keys(record["stats"]) == {
        *("seconds", "nodes", "layer_sizes", "cost_diversity", "peak_bytes", "representation"),
        *("approximate_costs", "approximate_costs_bound"),
    }
    written = record["written"]["policy"]
    assert written == {"path": f"{name}.policy", "bytes": (folder / written["path"]).stat().st_size, "replaced": False}
    assert solvent.load_policy(folder / f"{name}.policy", model) == solution.policy
    again = run(f"solvent solve {name}.yaml --json --out {name}.policy").json
    assert again["written"]["policy"]["replaced"] is True


def test_limits_are_exact(folder: Path) -> None:
    record = run("solvent solve cash-line.yaml --json --budget cash=9,9,9,8,8,8,7,5,10/3").json
    assert record["limits"]["cash"]["upper"][-1] == "10/3"
    assert record["limits"]["cash"]["lower"] == [None] * 9


def test_rounded_costs(folder: Path) -> None:
    relaxed = run("solvent solve campaign.yaml --json --approximation additive --epsilon 1").json
    strict = run("solvent solve campaign.yaml --json --approximation additive --epsilon 1 --strict").json
    assert (relaxed["status"], strict["status"]) == ("relaxed", "feasible")
    assert relaxed["approximation"] == strict["approximation"] == "additive"
    assert Fraction(relaxed["worst_spent"]["money"]) - 30 == Fraction(relaxed["excess"]["money"]) > 0
    assert strict["excess"] == {"money": "0"}
    assert relaxed["value_upper"] == strict["value_upper"] >= relaxed["value"]
    assert strict["value_upper"] >= strict["value"] >= strict["value_lower"] >= strict["value"] * (1 - 1e-9)


def test_an_epsilon_that_is_too_coarse(folder: Path) -> None:
    line = "solvent solve cash-line.yaml --approximation additive --epsilon 20 --strict --out no.policy"
    done = run(f"{line} --json")
    assert done.code == 1
    assert (done.json["status"], done.json["value"], done.json["diagnosis"]) == ("not_found", None, None)
    assert done.json["written"] == {}
    assert run(line).out.startswith("not found: no policy found with this epsilon; one may exist\n")
    assert not (folder / "no.policy").exists()


def test_a_gap(folder: Path) -> None:
    done = run("solvent solve cash-line.yaml --json --gap 0.5")
    assert done.code == 0
    assert done.json["status"] in ("optimal", "within_gap")
    assert done.json["gap"] <= 0.5


def test_infeasible(folder: Path) -> None:
    done = run("solvent solve delivery-van.yaml --json --budget fuel=-5/2 --out no.policy")
    assert done.code == 1
    assert done.json["status"] == "infeasible"
    assert done.json["value"] is None
    assert done.json["written"] == {}
    assert done.json["diagnosis"] == {
        "least_budget": {"fuel": "0"},
        "shortfall": {"fuel": "5/2"},
        "stuck_step": 0,
        "stuck_is_first": True,
        "undetermined": [],
        "goal": None,
        "blame": ["fuel"],
        "sufficient_budget": {},
        "sufficient_extra": {},
        "sufficient_together": {},
        "stuck_at": None,
        "history": done.json["diagnosis"]["history"],
    }
    (step,) = done.json["diagnosis"]["history"]["steps"]
    assert (step["state"], step["action"], step["spent"]) == ("depot", "park", {"fuel": "0"})
    assert not (folder / "no.policy").exists()


def test_a_limit(folder: Path) -> None:
    done = run("solvent solve delivery-van.yaml --json --time-limit 1e-9")
    assert done.code == 3
    assert done.json["status"] == "limit"
    assert done.json["value"] is None
    assert 117 <= done.json["value_upper"] <= 117 * (1 + 1e-9)
    assert done.json["gap"] is None


def test_frontier(folder: Path) -> None:
    done = run("solvent frontier delivery-van.yaml --max-budget 61/2 --json --csv van.csv")
    record = done.json
    assert done.code == 0
    assert keys(record) == HEAD | {
        *(
            "model",
            "resource",
            "vary",
            "fixed_limits",
            "ignored_limits",
            "max_budget",
            "flat_beyond",
            "least_budget",
            "points",
            "written",
        ),
    }
    assert (record["resource"], record["max_budget"], record["least_budget"]) == ("fuel", "61/2", "0")
    curve = solvent.frontier(solvent.load_model(EXAMPLES / "delivery-van.yaml"), max_budget="61/2")
    assert [Fraction(point["budget"]) for point in record["points"]] == list(curve.budgets)
    assert [point["value"] for point in record["points"]] == curve.values.tolist()
    lines = (folder / "van.csv").read_text().splitlines()
    assert lines[0] == "budget,budget_float,value"
    assert [float(line.split(",")[2]) for line in lines[1:]] == curve.values.tolist()
    nothing = run("solvent frontier delivery-van.yaml --max-budget -1 --json")
    assert nothing.code == 1
    assert nothing.json["least_budget"] is None
    assert nothing.json["points"] == []


def test_frontier_of_several_resources(folder: Path) -> None:
    line = "solvent frontier drone.yaml -r risk -r battery --ignore-limits --max-budget risk=0.6 --max-budget battery=9"
    done = run(f"{line} --json --csv drone.csv --plot drone.svg")
    record = done.json
    assert done.code == 0
    assert keys(record) == HEAD | {
        *("model", "resources", "vary", "fixed_limits", "ignored_limits", "max_budget", "flat_beyond", "error"),
        *("least_budgets", "points", "written"),
    }
    assert record["max_budget"] == {"risk": "3/5", "battery": "9"}
    assert record["flat_beyond"] == {"risk": False, "battery": False}
    assert (record["fixed_limits"], record["least_budgets"]) == ([], [{"risk": "0", "battery": "-6"}])
    model = solvent.load_model(EXAMPLES / "drone.yaml")
    surface = solvent.frontier(model, ["risk", "battery"], record["max_budget"], ignore_limits=True)
    points = record["points"]
    assert [tuple(map(Fraction, point["budget"].values())) for point in points] == list(surface.budgets)
    assert [point["value"] for point in points] == surface.values.tolist()
    assert points[1]["budget_float"] == {"risk": float(surface.budgets[1][0]), "battery": float(surface.budgets[1][1])}
    lines = (folder / "drone.csv").read_text().splitlines()
    assert lines[0] == "budget_risk,budget_battery,budget_float_risk,budget_float_battery,value"
    assert [float(line.split(",")[4]) for line in lines[1:]] == surface.values.tolist()
    assert b"<svg" in (folder / "drone.svg").read_bytes()
    nothing = run(f"{line.replace('battery=9', 'battery=-9')} --json")
    assert nothing.code == 1
    assert nothing.json["least_budgets"] == nothing.json["points"] == []


def test_verify(van: Path) -> None:
    done = run("solvent verify delivery-van.yaml van.policy --json")
    assert done.code == 0
    assert keys(done.json) == HEAD | {
        *("model", "feasible", "value", "violation_probability", "expected_excess", "worst_spent", "least_spent"),
        *("worst_spent_by_step", "least_spent_by_step"),
        *("upper", "lower", "initial", "nodes", "witness"),
    }
    assert done.json["feasible"] is True
    assert done.json["witness"] is None
    assert (
        Fraction(done.json["worst_spent"]["fuel"]) == max(map(Fraction, done.json["worst_spent_by_step"]["fuel"])) == 30
    )
    broken = run("solvent verify delivery-van.yaml van.policy --json --budget 57/2")
    assert broken.code == 1
    assert broken.json["feasible"] is False
    assert done.json["initial"] == {"fuel": "0"}
    witness = broken.json["witness"]
    assert keys(witness) == {"resource", "start", "initial", "ends_in", "must_end_in", "steps"}
    assert (witness["resource"], witness["initial"], witness["ends_in"]) == ("fuel", {"fuel": "0"}, None)
    steps = witness["steps"]
    assert witness["start"] == steps[0]["state"]
    assert keys(steps[-1]) == {"step", "state", "action", "next_state", "cost", "spent", "upper", "lower"}
    assert Fraction(steps[-1]["spent"]["fuel"]) > Fraction(steps[-1]["upper"]["fuel"]) == Fraction(57, 2)
    assert sum(Fraction(each["cost"]["fuel"]) for each in steps) == Fraction(steps[-1]["spent"]["fuel"])


def test_simulate(van: Path) -> None:
    done = run("solvent simulate delivery-van.yaml van.policy --json --episodes 500 --seed 4")
    record = done.json
    assert keys(record) == HEAD | {
        *("model", "episodes", "seed", "mean_reward", "standard_error", "violations", "max_spent", "levels"),
        *("spent_quantiles", "stopped", "written"),
    }
    model = solvent.load_model("delivery-van.yaml")
    runs = solvent.simulate(model, solvent.load_policy("van.policy", model), 500, 4)
    assert record["mean_reward"] == runs.mean_reward
    assert record["max_spent"] == {"fuel": str(runs.max_spent["fuel"])}
    assert len(record["spent_quantiles"]["fuel"]) == len(record["levels"]) == 7
    one = run("solvent simulate delivery-van.yaml van.policy --json --episodes 1").json
    assert one["standard_error"] is None


def test_convert_and_schema(folder: Path) -> None:
    done = run("solvent convert drone.yaml drone.npz --json")
    assert keys(done.json) == HEAD | {"written", "fingerprint"}
    assert (
        solvent.load_model("drone.npz").fingerprint
        == done.json["fingerprint"]
        == solvent.load_model("drone.yaml").fingerprint
    )
    schema = json.loads(run("solvent schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(run("solvent schema --json").out) == schema
    assert run("solvent schema --out model.json").out.startswith("wrote model.json (")
    assert json.loads((folder / "model.json").read_text()) == schema


def test_errors(folder: Path) -> None:
    done = run("solvent solve delivery-van.yaml --json --budget feul=3")
    assert done.code == 2
    assert done.json == {
        "command": "solve",
        "version": solvent.__version__,
        "error": {
            "kind": "BudgetError",
            "message": "--budget feul=3: expected a resource of the model ('fuel'), found 'feul'; did you mean 'fuel'?",
            "expected": "a resource of the model ('fuel')",
            "found": "'feul'",
            "where": "--budget feul=3",
            "hint": "did you mean 'fuel'?",
        },
        "exit_code": 2,
    }
    assert done.err.startswith("error: --budget feul=3\n")
    usage = run("solvent solve --json --budgt 3")
    assert usage.code == 2
    assert usage.json["error"]["kind"] == "UsageError"
    assert usage.json["error"]["hint"] == "did you mean '--budget'?"


def test_discounted_models(folder: Path) -> None:
    b = solvent.CMDP.builder(horizon=None, discount="0.9", start="home", resources=["fuel"], budget=5)
    b.add("home", "rest", reward=1, outcomes=[(1, "home", "1/3")])
    b.build().save(folder / "ever.yaml")
    shown = run("solvent info ever.yaml --json").json
    assert (shown["horizon"], shown["discount"]) == (None, "9/10")
    assert run("solvent convert ever.yaml ever.json").code == 0
    refused = run("solvent solve ever.yaml")
    assert refused.code == 2
    assert refused.err.startswith("error: ever.yaml\n  expected  a model with a finite horizon\n")
