"""What `solvent verify` prints and writes for a model with a goal and an account."""

from __future__ import annotations

import solvent
from solvent.cli.text.records import report_record
from solvent.cli.text.results import report_text
from solvent.verification.report import render


def robot() -> solvent.CMDP:
    b = solvent.CMDP.builder(
        horizon=2,
        start={"dock": 0.5, ("far", 1): 0.5},
        resources=[solvent.Resource("charge", floor=0)],
        budget=4,
        must_end_in=["dock"],
    )
    b.add("dock", "wait", outcomes=[(1, "dock", -3)])
    b.add(("far", 1), "wait", outcomes=[(1, ("far", 1), 1)])
    b.add(("far", 1), "go", outcomes=[(1, "dock", 2)])
    return b.build()


def test_a_history_that_ends_outside_the_goal() -> None:
    model = robot()
    report = solvent.verify(model, lambda *_: "wait", spent=1)
    text = render(report_text(report))
    assert "a limit can be broken or an episode can end where it must not, with probability 0.5" in text
    assert "ends in ('far', 1) after step 1, expected 'dock' (spent before the first step: charge 1)" in text
    record = report_record(model, report)
    assert record["initial"] == {"charge": "1"}
    witness = record["witness"]
    assert (witness["resource"], witness["start"], witness["initial"]) == (None, ["far", 1], {"charge": "1"})
    assert (witness["ends_in"], witness["must_end_in"]) == (["far", 1], ["dock"])
    assert [step["spent"] for step in witness["steps"]] == [{"charge": "2"}, {"charge": "3"}]


def test_a_policy_that_reaches_the_goal() -> None:
    def decide(step, state, spent):
        return "wait" if state == "dock" else "go"

    report = solvent.verify(robot(), decide)
    assert "no history breaks a limit or ends where it must not" in render(report_text(report))
    assert report_record(robot(), report)["witness"] is None
