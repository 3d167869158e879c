"""Every claim of the paper's section EXPERIMENTS, checked against the facts of the figures."""

from __future__ import annotations

from solvent.experiments.experiment import duration, percent, power
from solvent.experiments.transcription import relative_length, smaller_budget, solve_approximate
from solvent.experiments.verdicts import (
    BUDGETS,
    NOT_COMPARABLE,
    PAPER,
    AllFacts,
    Check,
    Section,
    by_budget,
    claim,
    grows_like,
    verdict,
)
from solvent.model import instances

#: Claims: the section, the text, and the function that checks it.
CHECKS: list[tuple[Section, str, Check]] = []


@claim(CHECKS, "both", "the complexity blowup for anytime constraints is in the time horizon")
def _blowup(facts: AllFacts) -> tuple[str, str]:
    large, far = facts["approximation"]["large"], facts["far"]["growing"]
    growth = far["exact"]["growth_nodes"]
    measured = (
        f"each step multiplies the nodes of the reduction by {large['factor_nodes']:.2f} (b = {large['budget']:g}, H "
        f"up to {large['horizon']}); the points of Solvent's exact method grow as {power(growth)} ({far['name']}, H up "
        f"to {facts['far']['horizon']})"
    )
    return measured, verdict(large["factor_nodes"] > 1.5)


@claim(CHECKS, "main", "with H = B = 15 the exact reduction takes around a minute")
def _minute(facts: AllFacts) -> tuple[str, str]:
    text = facts["approximation"]["text"]
    plain, layers, exact = (duration(text["seconds"][m]) for m in ("plain exact", "reduction", "exact"))
    measured = (
        f"{plain} for the same algorithm on Python's dictionaries, {layers} for the same layers in compiled code, "
        f"{exact} for Solvent's exact method (H = B = {text['horizon']})"
    )
    return measured, NOT_COMPARABLE


@claim(CHECKS, "main", "which is unsurprising as the complexity grows like 30 (2^15)^2")
def _squared(facts: AllFacts) -> tuple[str, str]:
    text, large = facts["approximation"]["text"], facts["approximation"]["large"]
    measured = (
        f"{text['nodes']:,} nodes; each further step multiplies the nodes by {large['factor_nodes']:.2f} and the time "
        f"by {large['factor']:.2f} in the algorithm as written (a square would be 4)"
    )
    return measured, verdict(large["factor"] > 3)


@claim(CHECKS, "both", "the approximation has at least the optimal value")
def _at_least(facts: AllFacts) -> tuple[str, str]:
    found = [facts["value"][name] for name in BUDGETS]
    held = all(each["never_below_optimum"] for each in found)
    trials = sum(each["trials"] for each in found)
    return f"{'in all of' if held else 'not in all of'} {trials} trials, compared with the exact optimum", verdict(held)


@claim(CHECKS, "both", "the feasibility (no-violation) scheme is feasible, and at most optimal")
def _feasible(facts: AllFacts) -> tuple[str, str]:
    found = [facts[figure][name] for figure in ("value", "never-over") for name in BUDGETS]
    kept = all(each["never_over"] for each in found)
    below = all(each.get("never_above_optimum", True) for each in found)
    trials = sum(each["trials"] for each in found)
    who = "all" if kept and below else "not all"
    return f"never over budget, never above the optimum: {who} of {trials} trials", verdict(kept, below)


@claim(CHECKS, "both", "both values are consistently close even in the worst case (ε = .1, b in {.1, 10}, H up to 50)")
def _close(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    measured = f"at worst apart by {by_budget(value, lambda f: percent(f['apart']))}"
    return measured, verdict(*(value[name]["apart"] <= value[name]["epsilon"] for name in PAPER))


def close_and_over() -> tuple[float, float]:
    """Return the distance of both schemes and the excess of the approximation, in an instance with a larger excess.

    Two steps, epsilon = .1 and a budget of 100: one item costs 90 and is worth 10,000, the other 104 and 10,001.

    Examples
    --------
    >>> apart, over = close_and_over()
    >>> f"{apart:.4%} apart, {over:.0%} over"
    '0.0100% apart, 4% over'
    """
    budget, weights, worth = 100, [90, 104], [10_000, 10_001]
    model = instances.knapsack(worth, weights)
    rough = solve_approximate(model, budget, relative_length(0.1, budget, 2)).value
    smaller = smaller_budget(0.1, budget)
    safe = solve_approximate(model, smaller, relative_length(0.1, smaller, 2)).value
    taken = weights[worth.index(round(rough))]
    return (rough - safe) / rough, (taken - budget) / budget


@claim(
    CHECKS,
    "main",
    "if both algorithms achieve value close to each other, we know that the approximation is not violating the budget "
    "much",
)
def _closeness(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    apart, over = close_and_over()
    shown = by_budget(value, lambda f: f"in {f['close_over']} of {f['close']}, by up to {percent(f['close_worst'])},")
    measured = (
        f"values within ε, and nevertheless over budget: {shown}; that the excess is at most ε is proved regardless of "
        f"the values, and closeness adds nothing: with H = 2 and items of cost .9 B and 1.04 B, worth 1 and 1.0001, "
        f"values are within {percent(apart)} and the approximation is {percent(over)} over"
    )
    within = all(value[name]["close_worst"] <= value[name]["epsilon"] for name in PAPER)
    return measured, verdict(within, all(value[name]["close_over"] == 0 for name in PAPER) and over <= apart)


@claim(CHECKS, "both", "so the feasible solution is nearly optimal")
def _nearly_optimal(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    measured = f"at worst below the optimum by {by_budget(value, lambda f: percent(f['below']))}"
    return measured, verdict(*(value[name]["below"] <= value[name]["epsilon"] for name in PAPER))


@claim(CHECKS, "main", "and the approximate solution is nearly feasible")
def _nearly_feasible(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    shown = by_budget(value, lambda f: f"in {f['over']} of {f['trials']} trials by up to {percent(f['worst_over'])}")
    held = all(value[name]["worst_over"] <= value[name]["epsilon"] for name in PAPER)
    return f"over budget {shown}; ε allows {percent(value['large']['epsilon'])}", verdict(held)


@claim(CHECKS, "main", "a budget of b = 100 maximizes the cost diversity")
def _diversity(facts: AllFacts) -> tuple[str, str]:
    scale, layers = facts["scale"], facts["approximation"]["large"]
    loose = scale["fine"]["plain accumulate"]["nodes"]
    binding = scale["binding"]["plain approximate"]["nodes"]
    measured = (
        f"as defined, for exact layers, yes: all costs together reach {scale['most_spent']:.3g}, so that b = "
        f"{scale['budget']:g} rules out no sum (as b = {layers['budget']:g} at H = {layers['horizon']}: every subset "
        f"is a node in {layers['all_subsets']} trials); for the layers that this test builds, no: b makes the length ε "
        f"b / H large, {loose:,} nodes at H = {scale['horizon']} against {binding:,} with b = H / "
        f"{scale['steps_per_unit']}; with f as written, {scale['fine']['plain approximate']['nodes']:,}"
    )
    return measured, verdict(scale["most_spent"] <= scale["budget"], loose >= binding)


@claim(CHECKS, "main", "ε = .1: cubic-like growth, as expected from its corollary for positive costs")
def _cubic(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    loose, binding = scale["fine"]["plain accumulate"], scale["binding"]["plain approximate"]
    written = scale["fine"]["plain approximate"]
    measured = (
        f"b = {scale['budget']:g}, f without its second case: nodes {power(loose['growth_nodes'])}, time "
        f"{power(loose['growth'])}; f as written: nodes {power(written['growth_nodes'])}, time "
        f"{power(written['growth'])}; nodes decide; b = H / {scale['steps_per_unit']}: nodes "
        f"{power(binding['growth_nodes'])}, time {power(binding['growth'])}"
    )
    return measured, verdict(*(grows_like(each["growth_nodes"], 3) for each in (loose, written)))


@claim(CHECKS, "both", "H = 100 in a mere 2 seconds (ε = .1)")
def _two_seconds(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    plain, ours = (scale["fine"][method]["seconds"] for method in ("plain accumulate", "approximate"))
    binding = scale["binding"]
    measured = (
        f"{duration(plain)} plain, {duration(ours)} by Solvent; with b = H / {scale['steps_per_unit']}, "
        f"{duration(binding['plain approximate']['seconds'])} and {duration(binding['approximate']['seconds'])} (H = "
        f"{scale['horizon']})"
    )
    return measured, NOT_COMPARABLE


@claim(CHECKS, "main", "which drastically beats the exact reduction")
def _beats(facts: AllFacts) -> tuple[str, str]:
    scale, reduction = facts["scale"], facts["approximation"]["large"]
    exact, rough = (scale["binding"][method]["seconds"] for method in ("exact", "approximate"))
    plain = scale["fine"]["plain accumulate"]["seconds"]
    measured = (
        f"the plain reduction takes {duration(reduction['seconds']['plain exact'])} at H = {reduction['horizon']} "
        f"already, and {reduction['factor']:.2f} times as long with each further step; the plain approximation "
        f"{duration(plain)} at H = {scale['horizon']}. (There, with b = H / {scale['steps_per_unit']}, Solvent's exact "
        f"method takes {duration(exact)}, its approximation {duration(rough)})"
    )
    doubled = reduction["seconds"]["plain exact"] * reduction["factor"] ** (scale["horizon"] - reduction["horizon"])
    return measured, verdict(doubled > 100 * plain)


@claim(CHECKS, "both", "ε = 1: at most .0008 seconds")
def _coarse(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    plain, ours = (scale["coarse"][method] for method in ("plain accumulate", "approximate"))
    measured = (
        f"{duration(plain['seconds'])} plain, {duration(ours['seconds'])} by Solvent; costs below the length ε b / H = "
        f"{scale['coarse']['epsilon'] * scale['budget'] / scale['horizon']:g} count as 0, and {plain['nodes']:,} nodes "
        f"are left for {scale['horizon']} layers"
    )
    return measured, NOT_COMPARABLE


@claim(CHECKS, "both", "ε = 1: guaranteed to violate the budget by no more than a multiple of 2")
def _twice(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    measured = (
        f"at worst over budget by {percent(scale['worst_over'])}; as all costs together reach "
        f"{scale['most_spent']:.3g}, no policy can exceed a budget of {scale['budget']:g}"
    )
    return measured, verdict(scale["worst_over"] <= 1)
