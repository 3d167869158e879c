"""The output of every command for every example, and for invalid input."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import EXAMPLES, GOLDEN, check_golden, run

#: A tank that cannot be overfilled, wear, and hours of which one policy has three.
TWO_TANKS = """\
solvent: 1
name: two tanks
horizon: 4
start: road
resources: [{name: fuel, floor: 0}, wear, hours]
budget: {fuel: 4, wear: 5, hours: 6}
rows:
  - state: road
    action: drive
    reward: 2
    outcomes:
      - {probability: 1/2, next: road, cost: {fuel: 2, wear: 1, hours: 1}}
      - {probability: 1/2, next: road, cost: {fuel: 1, wear: 2, hours: 1}}
  - state: road
    action: fill
    outcomes:
      - {probability: 1, next: road, cost: {fuel: -4, hours: 1/2}}
  - state: road
    action: wait
    outcomes:
      - {probability: 1, next: road, cost: {hours: 1/2}}
"""
#: Two roads at each of five places, one of which takes less fuel and more time.
ROADS = """\
solvent: 1
name: roads
horizon: 5
start: place
resources: [fuel, hours]
rows:
  - state: place
    action: highway
    reward: 1
    outcomes:
      - {probability: 1, next: town, cost: {fuel: 3, hours: 1}}
  - state: place
    action: country road
    outcomes:
      - {probability: 1, next: town, cost: {fuel: 1, hours: 2}}
  - state: town
    action: highway
    outcomes:
      - {probability: 1, next: place, cost: {fuel: 2, hours: 1}}
  - state: town
    action: country road
    outcomes:
      - {probability: 1, next: place, cost: {fuel: 1, hours: 2}}
"""
#: Options of `solve` and `frontier` for each example.
SOLVE = {"campaign": "--approximation additive --epsilon 1 --strict"}
FRONTIER = {
    "delivery-van": "--max-budget 60",
    "campaign": "",
    "cash-line": "--ignore-limits --max-budget 9",
    "covering": "--ignore-limits",
    "dose": "--max-budget 12",
    "drone": "--resource risk --ignore-limits",
}
EXAMPLE_NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))


def session(lines: list[str]) -> str:
    return "\n".join(run(line).transcript() for line in lines)


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_every_command_on_every_example(name: str, folder: Path) -> None:
    lines = [
        f"solvent info {name}.yaml",
        f"solvent solve {name}.yaml {SOLVE.get(name, '')} --out {name}.policy".replace("  ", " "),
        f"solvent frontier {name}.yaml {FRONTIER.get(name, '')}".rstrip(),
        f"solvent policy {name}.yaml {name}.policy",
        f"solvent verify {name}.yaml {name}.policy",
        f"solvent simulate {name}.yaml {name}.policy --episodes 2000 --seed 1",
        f"solvent convert {name}.yaml {name}.npz",
        f"solvent convert {name}.npz {name}.json",
    ]
    check_golden(name, session(lines))


def test_rounding(folder: Path) -> None:
    lines = [
        "solvent solve campaign.yaml",
        "solvent solve campaign.yaml --approximation additive --epsilon 1",
        "solvent solve cash-line.yaml --approximation additive --epsilon 1",
        "solvent solve cash-line.yaml --approximation additive --epsilon cash=1 --strict --out cash.policy --verbose",
        "solvent verify cash-line.yaml cash.policy",
        "solvent solve delivery-van.yaml --approximation relative --epsilon 0.1",
        "solvent solve cash-line.yaml --approximation additive --epsilon 20 --strict",
        "solvent solve delivery-van.yaml --method additive --epsilon 1",
        "solvent solve delivery-van.yaml --epsilon 1",
        "solvent solve delivery-van.yaml --strict",
        "solvent solve delivery-van.yaml --approximation additive",
        "solvent solve delivery-van.yaml --approximation additive --epsilon 0",
        "solvent solve delivery-van.yaml --approximation additive --epsilon feul=1",
        "solvent solve drone.yaml --approximation relative --epsilon 0.1",
        "solvent solve campaign.yaml --gap 0.01 --verbose",
        "solvent solve drone.yaml --gap 0.01",
        "solvent solve delivery-van.yaml --gap -1",
        "solvent solve delivery-van.yaml --gap 0.01 --approximation additive",
    ]
    check_golden("rounding", session(lines))


def test_budgets(folder: Path) -> None:
    van = "solvent solve delivery-van.yaml"
    steps = ",".join(["none"] * 10 + ["12"] * 9 + ["..12"])
    lines = [
        f"{van} --budget fuel=12",
        f"{van} --budget 12.5",
        f"{van} --budget fuel=37/3",
        f"{van} --budget fuel=0..12",
        f"{van} --budget fuel=final:12",
        f"{van} --budget fuel={steps}",
        f"{van} --budget fuel=none",
        f"{van} --budget fuel=-1",
        "solvent solve drone.yaml --budget risk=0.5",
        "solvent solve drone.yaml --budget risk=0.1 --budget battery=0..3",
    ]
    check_golden("budgets", session(lines))


def test_spent_and_remaining(folder: Path) -> None:
    van = "delivery-van.yaml"
    lines = [
        f"solvent solve {van} --spent fuel=25 --out low.policy",
        f"solvent verify {van} low.policy",
        f"solvent verify {van} low.policy --spent 26",
        f"solvent simulate {van} low.policy --spent fuel=26 --episodes 500",
        f"solvent solve {van} --spent fuel=-1",
        f"solvent solve {van} --spent feul=1",
        f"solvent solve {van} --spent fuel=some",
        f"solvent solve {van} --spent 1 --spent fuel=2",
        "solvent solve drone.yaml --spent 3",
        f"solvent frontier {van} --vary remaining",
        f"solvent frontier {van} --vary remaining --budget fuel=12 --max-budget 6",
        f"solvent frontier {van} --vary remaining --max-budget 31",
        f"solvent frontier {van} --spent 3 --max-budget 12",
        f"solvent frontier {van} --vary remaning",
        f"solvent frontier {van} --budget 12",
        f"solvent frontier {van} --vary remaining --spent 1",
        "solvent frontier robot.yaml --vary remaining --max-budget 3",
    ]
    check_golden("accounts", session(lines))


def test_surfaces(folder: Path) -> None:
    both = "solvent frontier drone.yaml --resource battery --resource risk"
    tanks = "solvent frontier two-tanks.yaml -r fuel -r wear --vary remaining"
    lines = [
        both,
        f"{both} --ignore-limits --max-budget risk=0.6 --max-budget battery=14",
        f"{both} --ignore-limits --max-budget risk=0.6 --max-budget battery=14 --verbose",
        f"{both} --ignore-limits --max-budget risk=0.6 --max-budget battery=-7",
        f"{both} --ignore-limits --max-budget 3",
        f"{both} --ignore-limits --max-budget rsk=3",
        f"{both} --ignore-limits --max-budget risk=3 --max-budget risk=4",
        f"{both} --ignore-limits --budget risk=3",
        f"{both} --ignore-limits --at risk=1",
        f"{both} --resource risk",
        "solvent frontier two-tanks.yaml --resource fuel --resource wear",
        "solvent frontier two-tanks.yaml --resource fuel --resource wear --vary remaining",
        f"{tanks} -b hours=3 -b fuel=4 -b wear=9 --spent fuel=1",
        f"{tanks} -b hours=3 -b fuel=4 -b wear=9 --spent hours=1",
        "solvent frontier two-tanks.yaml -r wear -r hours -b fuel=4",
        "solvent frontier two-tanks.yaml -r wear -r hours -r fuel --vary remaining --plot three.png",
        "solvent frontier two-tanks.yaml -r wear -b hours=3.5",
        "solvent frontier two-tanks.yaml -r fuel",
        "solvent frontier two-tanks.yaml -r fuel --vary remaining -b fuel=3",
        "solvent frontier two-tanks.yaml -r wear -b wear=3",
        "solvent frontier roads.yaml -r fuel -r hours",
        "solvent frontier roads.yaml -r fuel -r hours --verbose",
        "solvent solve roads.yaml -b fuel=4 -b hours=6",
        "solvent solve roads.yaml -b fuel=1 -b hours=1",
    ]
    (folder / "two-tanks.yaml").write_text(TWO_TANKS)
    (folder / "roads.yaml").write_text(ROADS)
    check_golden("surfaces", session(lines))


def test_policies(folder: Path) -> None:
    show = "solvent policy robot.yaml robot.policy"
    lines = [
        "solvent solve robot.yaml --out robot.policy",
        f"{show} --step 4",
        f"{show} --step 4 --state d3 --markdown",
        f"{show} --state e1",
        f"{show} --step 6 --state d4 --csv d4.csv",
        f"{show} --explain --step 0 --state a1",
        f"{show} --explain --step 6 --state d4 --spent battery=1",
        f"{show} --explain --step 20 --state d4 --spent 3",
        f"{show} --explain --step 23 --state e5 --spent 3",
        "solvent solve drone.yaml --out drone.policy",
        "solvent policy drone.yaml drone.policy --step 5 --resource battery",
        "solvent policy drone.yaml drone.policy --explain --step 5 --state pad --spent battery=19 --spent risk=0.5",
        "solvent solve delivery-van.yaml --approximation additive --epsilon 40 --out rounded.policy",
        "solvent policy delivery-van.yaml rounded.policy --step 3",
        "solvent policy delivery-van.yaml rounded.policy --explain --step 3 --state town --spent 6",
        f"{show} --explain --step 0",
        f"{show} --explain --state a1",
        f"{show} --explain --step 3 --state a1",
        f"{show} --explain --step 30 --state a1 --spent 1",
        f"{show} --explain --step 3 --state a1 --spent 1 --csv x.csv",
        f"{show} --spent 3",
        f"{show} --state z9",
        f"{show} --step 24",
        f"{show} --resource fuel",
        "solvent policy drone.yaml robot.policy",
        "solvent policy robot.yaml nothing.policy",
    ]
    check_golden("policies", session(lines))


def test_levels(folder: Path) -> None:
    (folder / "two-tanks.yaml").write_text(TWO_TANKS)
    van = "solvent levels delivery-van.yaml"
    lines = [
        f"{van} --capacity 30",
        f"{van} --capacity 12.5 --target farm --target harbor",
        f"{van} --capacity 12 --reload depot --target farm --json",
        f"{van} --capacity 4 --reload depot --to-reload",
        f"{van} --capacity 1 --target farm",
        f"{van} --capacity 12 --reload depo",
        f"{van} --capacity 12 --reload depot --to-reload --target farm",
        f"{van} --capacity full",
        f"{van}",
        "solvent levels drone.yaml --capacity 20 --resource battery",
        "solvent levels dose.yaml --capacity 20",
        "solvent levels campaign.yaml --capacity 20",
        "solvent levels two-tanks.yaml --capacity 3 --resource fuel",
    ]
    check_golden("levels", session(lines))


def test_mistakes(van: Path) -> None:
    (van / "typo.yaml").write_text((van / "delivery-van.yaml").read_text().replace("next: parked", "next: prked", 1))
    (van / "broken.yaml").write_text("solvent: 1\nrows: [")
    (van / "empty.npz").write_bytes(b"")
    solve = "solvent solve delivery-van.yaml"
    lines = [
        "solvent solve delivery-vn.yaml",
        "solvent solve typo.yaml",
        "solvent solve broken.yaml",
        "solvent info empty.npz",
        "solvent info .",
        "solvent info van.policy",
        f"{solve} --budget feul=30",
        f"{solve} --budget fuel=abc",
        f"{solve} --budget fuel=1,2,3",
        f"{solve} --budget fuel=5..3",
        f"{solve} --budget fuel=fnal:3",
        f"{solve} --budget fuel=inf",
        f"{solve} --budget 3 --budget fuel=4",
        "solvent solve drone.yaml --budget 3",
        f"{solve} --method redction",
        f"{solve} --time-limit 0",
        f"{solve} --memory-limit much",
        f"{solve} --out nowhere/van.policy",
        f"{solve} --out .",
        f"{solve} --out delivery-van.yaml",
        f"{solve} --plot van.jpg",
        f"{solve} --plot van",
        f"{solve} --out van.png --plot van.png",
        f"{solve} --budget fuel=-1 --out never.policy",
        f"{solve} --budgt 3",
        "solvent frontier drone.yaml",
        "solvent frontier drone.yaml --resource batery",
        "solvent frontier drone.yaml --resource battery",
        "solvent frontier delivery-van.yaml --max-budget lots",
        "solvent frontier delivery-van.yaml --max-budget -1",
        "solvent verify delivery-van.yaml van.polcy",
        "solvent verify drone.yaml van.policy",
        "solvent verify van.policy delivery-van.yaml",
        "solvent verify delivery-van.yaml van.policy --budget fuel=25",
        "solvent verify delivery-van.yaml van.policy --max-nodes 10",
        "solvent simulate delivery-van.yaml van.policy --episodes 0",
        "solvent simulate delivery-van.yaml van.policy --episodes 1000 --seed 1 --budget 25",
        "solvent simulate delivery-van.yaml van.policy --seed -1",
        "solvent convert delivery-van.yaml van.txt",
        "solvent convert delivery-van.yaml delivery-van.yaml",
        "solvent schema --out nowhere/schema.json",
    ]
    before = sorted(path.name for path in van.iterdir())
    check_golden("mistakes", session(lines))
    assert sorted(path.name for path in van.iterdir()) == before, "a mistake left something behind"


def test_limits(folder: Path) -> None:
    lines = [
        "solvent solve delivery-van.yaml --time-limit 1e-9",
        "solvent solve drone.yaml --memory-limit 1kB",
        "solvent frontier delivery-van.yaml --time-limit 1e-9",
    ]
    runs = [run(line) for line in lines]
    assert [each.code for each in runs] == [3, 3, 3]
    check_golden("limits", "\n".join(each.transcript() for each in runs))


def test_saying_more(van: Path) -> None:
    lines = [
        "solvent info delivery-van.yaml --verbose",
        "solvent solve delivery-van.yaml --verbose --method reduction",
        "solvent frontier delivery-van.yaml --verbose --max-budget 20",
        "solvent verify delivery-van.yaml van.policy --verbose",
        "solvent simulate delivery-van.yaml van.policy --verbose --episodes 1000 --seed 3",
    ]
    check_golden("verbose", session(lines))


def test_narrow_terminals(van: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = [
        "solvent info delivery-van.yaml",
        "solvent solve delivery-van.yaml",
        "solvent frontier delivery-van.yaml --max-budget 20",
        "solvent verify delivery-van.yaml van.policy --budget 25",
        "solvent simulate delivery-van.yaml van.policy --episodes 100 --seed 1",
    ]
    text = session(lines)
    check_golden("narrow", text)
    shown = [line for line in text.splitlines() if not line.startswith("$")]
    assert max(map(len, shown)) <= 40


def test_no_golden_file_is_left_over() -> None:
    known = {
        *EXAMPLE_NAMES,
        "rounding",
        "budgets",
        "accounts",
        "policies",
        "surfaces",
        "mistakes",
        "levels",
        "limits",
        "verbose",
        "narrow",
        "learn",
        "learn-mistakes",
    }
    assert {file.stem for file in GOLDEN.glob("*.txt")} == known
