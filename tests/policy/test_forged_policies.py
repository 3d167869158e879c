"""Policy files that were changed: the checksum detects damage, and consistency checks detect forgery."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import solvent
from solvent import CMDP, PolicyError, SolventError
from solvent.core.archives import compress, read_archive, write_archive
from solvent.policy.files import from_bytes
from solvent.policy.locate import COLLAPSED
from solvent.policy.table import AugmentedPolicy
from solvent.policy.writing import to_bytes


def van() -> CMDP:
    b = CMDP.builder(horizon=3, start="home", resources=["time", "fuel"], budget={"fuel": 3, "time": None})
    b.add("home", "go", reward=2, outcomes=[(0.5, "home", [1, 1]), (0.5, "away", [1, 2])])
    b.add("home", "rest", outcomes=[(1, "home", 0)])
    b.add("away", "go", reward=1, outcomes=[(1, "home", [1, 1])])
    b.add("away", "rest", outcomes=[(1, "away", 0)])
    return b.build()


MODEL = van()
POLICY = solvent.solve(MODEL, method="reduction").policy
PARTS = read_archive(to_bytes(POLICY))


def forged(**changes: Any) -> bytes:
    """Return the policy's file with another header and a valid checksum."""
    return write_archive(PARTS[0], PARTS[1] | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"actions": ["rest", "go"]},
            r"policy, actions: expected the model's, \('go', 'rest'\), found \('rest', 'go'\)",
        ),
        ({"states": ["away", "home"]}, r"policy, states: expected the model's"),
        ({"start": "away"}, r"policy, start: expected the model's, 'home', found 'away'"),
        (
            {"resources": ["wear"]},
            r"policy, resources: expected resources of the model in its order, \['time', 'fuel'\]",
        ),
        ({"fingerprint": "0" * 32}, r"a policy for this model"),
        ({"fingerprint": "x"}, r"32 hexadecimal digits"),
        ({"units": ["2"]}, r"costs of fuel: expected whole multiples of the policy's unit"),
        ({"units": ["1e-390"]}, r"costs of fuel: expected a unit in which sums of costs fit 64 bits"),
        ({"lower": [["9", None, None]]}, r"no lower limit above the upper one"),
        ({"version": "9.9.9"}, r"newer version of Solvent"),
        ({"horizon": 10**15}, r"horizon: expected at most"),
    ],
)
def test_forged_headers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SolventError, match=message):
        from_bytes(forged(**changes), MODEL)


def test_swapped_names_are_refused_wherever_a_model_is_given() -> None:
    """Positions are valid, but actions by name would exceed the budget."""
    policy = from_bytes(forged(actions=["rest", "go"]))
    assert isinstance(policy, AugmentedPolicy)
    for use in (solvent.verify, solvent.simulate, lambda model, policy: policy.agent(model)):
        with pytest.raises(PolicyError, match="policy, actions: expected the model's"):
            use(MODEL, policy)


def test_a_policy_that_was_altered_without_its_checksum_is_refused() -> None:
    arrays, _ = PARTS
    with np.errstate(all="ignore"):
        for name, array in arrays.items():
            changed = array.copy()
            changed.reshape(-1)[0] += 1
            header = np.frombuffer(_raw_header(), np.uint8)
            with pytest.raises(SolventError, match="damaged or edited"):
                from_bytes(compress({**arrays, name: changed, "header": header}))
    for old, new in ((b'"3"', b'"9"'), (b"exact", b"downn"), (b"fuel", b"time"), (b"home", b"HOME")):
        header = np.frombuffer(_raw_header().replace(old, new), np.uint8)
        with pytest.raises(SolventError, match="damaged or edited"):
            from_bytes(compress({**arrays, "header": header}))


def _raw_header() -> bytes:
    import io

    with np.load(io.BytesIO(to_bytes(POLICY))) as archive:
        return archive["header"].tobytes()


def test_a_raised_limit_with_a_valid_checksum_is_accepted() -> None:
    """It cannot be distinguished from a policy made for that limit; verify it against one's own budget."""
    policy = from_bytes(forged(upper=[["1000"] * 3]), MODEL)
    assert isinstance(policy, AugmentedPolicy)
    report = solvent.verify(MODEL, policy, budget={"fuel": 3, "time": None})
    assert report.feasible
    assert report.worst_spent["fuel"] <= 3


def test_forged_actions_are_found_by_verify() -> None:
    arrays, header = PARTS
    greedy = write_archive({**arrays, "action_N": np.zeros_like(arrays["action_N"])}, header)
    policy = from_bytes(greedy, MODEL)
    assert isinstance(policy, AugmentedPolicy)
    assert not solvent.verify(MODEL, policy).feasible


@pytest.mark.parametrize("name", ["step_indptr", "node_indptr"])
def test_pointers_that_wrap_around_are_refused(name: str) -> None:
    arrays, header = PARTS
    for at in range(len(arrays[name])):
        for value in (-(2**63), 2**63 - 1, -1, 10**8):
            changed = arrays[name].copy()
            changed[at] = value
            with pytest.raises(SolventError, match=name):
                from_bytes(write_archive({**arrays, name: changed}, header), MODEL)


def test_runs_without_a_resource_are_refused() -> None:
    """The arrays are valid, but there is no amount to look up."""
    b = CMDP.builder(horizon=1, start="s", resources=["x"], budget={"x": None})
    b.add("s", "go", outcomes=[(1, "s", 1)])
    model = b.build()
    arrays, header = read_archive(to_bytes(solvent.solve(model, method="reduction").policy))
    assert from_bytes(write_archive(arrays, header), model).resources == ()
    with pytest.raises(PolicyError, match="lookup: expected equal, as no resource is tracked, found at_most"):
        from_bytes(write_archive(arrays, header | {"lookup": "at_most"}), model)


@pytest.mark.parametrize("lookup", ["equal", "at_most", "at_least"])
def test_settled_amounts_without_intervals_are_refused(lookup: str) -> None:
    arrays, header = PARTS
    rest = {name: array.copy() for name, array in arrays.items() if not name.startswith("settled")}
    rest["spent_ND"][0] = COLLAPSED
    with pytest.raises(PolicyError, match="settled: expected both ends, as some amount is settled, found none"):
        from_bytes(write_archive(rest, header | {"lookup": lookup}), MODEL)


@pytest.mark.parametrize("lookup", ["at_most", "at_least"])
def test_another_look_up_with_a_valid_checksum_is_verified(lookup: str) -> None:
    """Every query still has an answer or none, and `verify` judges the decisions that the file really makes."""
    policy = from_bytes(forged(lookup=lookup), MODEL)
    assert isinstance(policy, AugmentedPolicy)
    assert policy.lookup == lookup
    report = solvent.verify(MODEL, policy)
    assert report.feasible == all(spent <= 3 for spent in report.worst_spent_by_step["fuel"])
    policy.table()


def test_arrays_that_the_format_does_not_have_are_refused() -> None:
    with pytest.raises(SolventError, match="only arrays that the format has, found 'strange'"):
        from_bytes(write_archive({**PARTS[0], "strange": np.zeros(1)}, PARTS[1]))


def test_tail_rules_of_too_many_resources_are_refused_at_once(tmp_path: Any) -> None:
    """A file of a few kilobytes that unpacks to half a million equal texts."""
    b = CMDP.builder(horizon=None, discount="1/2", start="depot", resources=["fuel"], budget=10)
    b.add("depot", "deliver", reward=3, outcomes=[(1, "depot", 1)])
    b.add("depot", "wait", outcomes=[(1, "depot")])
    model = b.build()
    file = tmp_path / "d.policy"
    solvent.solve(model, epsilon=0.5, strict=True).policy.save(file)
    arrays, header = read_archive(file.read_bytes())
    many = np.full((len(header["rules"]), 250_000, 1), "1")
    file.write_bytes(write_archive({**arrays, "tail_most": many, "tail_least": many}, header))
    began = time.process_time()
    with pytest.raises(PolicyError, match=r"tail_most: expected numbers as text, of shape \(\d, 1, 1\), found shape"):
        solvent.load_policy(file, model)
    with pytest.raises(SolventError, match="expected at most 1,000 resources, found 250,000"):
        solvent.load_policy(file)
    assert time.process_time() - began < 2
