"""Third-party environments: the meters, the command on a few environments, and the page."""

from __future__ import annotations

import ast
from fractions import Fraction
from pathlib import Path

import gymnasium
import pytest

from bench.environments import __main__ as command
from bench.environments import cases, meter, page, play
from bench.environments.meter import Account, Ledger, Meter


class Toll(gymnasium.Env):
    """Action a costs a tenth of a."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


def toll(step):
    return Fraction(int(step.action), 10)


def test_an_account_counts_any_step_and_each_episode_once():
    account = Account(Fraction(1))
    for costs in ([1, 1, -1], [1], [], [Fraction(1, 2), Fraction(1, 2), Fraction(1, 10**30)]):
        account.begin()
        for cost in costs:
            account.add(cost)
    assert (account.episodes, account.steps, account.over) == (3, 7, 2)
    assert account.most == 2


def test_floats_count_as_they_are():
    account = Account(Fraction(1))
    account.begin()
    for _ in range(10):
        account.add(0.1)  # above a tenth by 5.6e-18
    assert account.over == 1


def test_a_meter_charges_what_was_executed():
    account = Account(Fraction(3, 10))
    env = Meter(Toll(), toll, account)
    env.reset()
    assert env.step(2)[4]["cost"] == Fraction(1, 5)
    assert account.over == 0
    env.step(2)
    assert (account.over, account.most) == (1, Fraction(2, 5))
    silent = Meter(Toll(), toll, account, report=False)
    silent.reset()
    assert silent.step(1)[4] == {}


def test_a_ledger_is_shared_or_not():
    for shared, over in ((True, 1), (False, 0)):
        ledger = Ledger(["a", "b"], Fraction(2), shared=shared)
        ledger.begin()
        ledger.add("a", 2)
        ledger.add("b", 1)
        assert sum(account.over for account in ledger.accounts) == over
        assert len(ledger.accounts) == (1 if shared else 2)


def test_meters_and_cases_share_no_code_with_solvent():
    for module in (meter, cases):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        names = [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
        names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in names if name.split(".")[0] == "solvent"]


def test_a_quick_run_is_within_budget(tmp_path, capsys):
    pytest.importorskip("pettingzoo")
    pytest.importorskip("pygame")  # of its environments
    path = tmp_path / "records.jsonl"
    assert command.main(["--quick", "--records", str(path)]) == 0
    records = list(command.read(path).values())
    assert {each["name"] for each in records} == set(cases.QUICK)
    assert len({each["mode"] for each in records}) == 8
    assert all(each["over"] == 0 < each["episodes"] for each in records)
    assert all(each["bare_over"] > 0 for each in records)  # the budget matters, and the meter notices
    written = path.read_bytes()
    assert command.main(["--quick", "--records", str(path)]) == 0
    assert path.read_bytes() == written  # nothing is played again
    assert "FrozenLake-v1" in capsys.readouterr().out


def test_the_command_fails_if_an_episode_is_over(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(play, "BudgetWrapper", lambda env, budget, **options: _Unprotected(env))
    path = tmp_path / "records.jsonl"
    assert command.main(["--quick", "--only", "CartPole-v1", "--records", str(path)]) == 1
    assert "over budget: CartPole-v1, BudgetWrapper, bound" in capsys.readouterr().out


class _Unprotected(gymnasium.Wrapper):
    """A wrapper that allows everything."""

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        return observation, {**info, "action_mask": [1, 1]}

    def step(self, action):
        *result, info = self.env.step(action)
        return (*result, {**info, "action_mask": [1, 1]})


def test_a_run_that_fails_is_a_row_and_an_exit_code(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise ValueError("no display | here")

    monkeypatch.setattr(command, "play", fail)
    assert command.main(["--quick", "--only", "CartPole-v1", "--records", str(tmp_path / "r.jsonl")]) == 1
    out = capsys.readouterr().out
    assert "failed: ValueError: no display \\| here" in out
    with pytest.raises(SystemExit, match="no environment is named Nothing"):
        command.main(["--only", "Nothing"])


def record(most, budget="10"):
    return {
        "name": "X", "package": "x", "version": "1", "mode": "m", "cost": "c", "budget": budget, "episodes": 3,
        "over": 0, "most": most, "bare_over": 2, "bare_episodes": 3,
    }  # fmt: skip


def test_amounts_never_look_more_or_less_than_the_budget():
    assert page.amount(record("7/2")) == "3.5"
    assert page.amount(record("99999999/10000000")) == "10"
    assert page.amount(record("100000001/10000000")) == "more than 10"
    assert page.amount(record("999999/100000", "9.99999")) == "9.99999"


def test_the_page_has_every_run_and_what_is_missing():
    text = page.text([record("7/2")], [cases.CASES[0]], 100)
    assert "| X | x 1 | m | c | 10 | 3 | **0** | 3.5 | 2 of 3 |" in text
    assert "1 environments, 1 runs, 3 episodes, 0 over budget" in text
    assert "| FrozenLake-v1 | the package gymnasium is not installed |" in text


def test_there_are_many_environments_and_every_mode():
    assert len({case.name for case in cases.CASES}) == len(cases.CASES) >= 50
    assert len({mode for case in cases.CASES for mode in play.modes(case)}) == 8
    assert set(cases.SHARES) | set(cases.QUICK) <= {case.name for case in cases.CASES}
