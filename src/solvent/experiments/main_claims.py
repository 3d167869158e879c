"""Every claim of the paper's section EXPERIMENTS, checked against the facts of the figures."""

from __future__ import annotations

from solvent.experiments.experiment import duration, percent, power
from solvent.experiments.verdicts import BUDGETS, AllFacts, Check, Section, by_budget, claim, verdict

#: Each claim: who makes it, what it says, and the function that checks it.
CHECKS: list[tuple[Section, str, Check]] = []


@claim(CHECKS, "both", "the complexity blowup for anytime constraints is in the time horizon")
def _blowup(facts: AllFacts) -> tuple[str, str]:
    large, far = facts["approximation"]["large"], facts["far"]["growing"]
    measured = (
        f"each step multiplies the nodes of the reduction by {large['factor_nodes']:.2f} (b = {large['budget']:g}, H up "
        f"to {large['horizon']}); the points of Solvent's exact method grow as {power(far['exact']['growth_nodes'])} "
        f"({far['name']}, H up to {facts['far']['horizon']})"
    )
    grows = far["exact"]["growth_nodes"]["exponent"] > 4
    return measured, verdict(large["factor_nodes"] > 1.5, grows)


@claim(CHECKS, "main", "with H = B = 15 the exact reduction takes around a minute")
def _minute(facts: AllFacts) -> tuple[str, str]:
    text = facts["approximation"]["text"]
    plain, layers, exact = (duration(text["seconds"][m]) for m in ("plain exact", "reduction", "exact"))
    measured = (
        f"{plain} for the same algorithm on Python's dictionaries, {layers} for the same layers in compiled code, "
        f"{exact} for Solvent's exact method (H = B = {text['horizon']})"
    )
    return measured, verdict(text["seconds"]["plain exact"] > 20)


@claim(CHECKS, "main", "which is unsurprising as the complexity grows like 30 (2^15)^2")
def _squared(facts: AllFacts) -> tuple[str, str]:
    text, large = facts["approximation"]["text"], facts["approximation"]["large"]
    measured = (
        f"{text['nodes']:,} nodes; each further step multiplies the nodes by {large['factor_nodes']:.2f} and the time "
        f"by {large['factor']:.2f} (a square would be 4)"
    )
    return measured, verdict(large["factor"] > 3)


@claim(CHECKS, "both", "the approximation has at least the optimal value")
def _at_least(facts: AllFacts) -> tuple[str, str]:
    found = [facts["value"][name] for name in BUDGETS]
    held = all(each["never_below_optimum"] for each in found)
    trials = sum(each["trials"] for each in found)
    return f"{'in all of' if held else 'not in all of'} {trials} trials, against the exact optimum", verdict(held)


@claim(CHECKS, "both", "the feasibility (no-violation) scheme is feasible, and at most optimal")
def _feasible(facts: AllFacts) -> tuple[str, str]:
    found = [facts[figure][name] for figure in ("value", "never-over") for name in BUDGETS]
    kept = all(each["never_over"] for each in found)
    below = all(each.get("never_above_optimum", True) for each in found)
    trials = sum(each["trials"] for each in found)
    who = "all" if kept and below else "not all"
    return f"never over, never above the optimum: {who} of {trials} trials", verdict(kept, below)


@claim(CHECKS, "both", "both values are consistently close even in the worst case (ε = .1, b in {.1, 10}, H up to 50)")
def _close(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    measured = f"at worst apart by {by_budget(value, lambda f: percent(f['apart']))}"
    return measured, verdict(*(value[name]["apart"] <= value[name]["epsilon"] for name in ("small", "large")))


@claim(CHECKS, "both", "so the feasible solution is nearly optimal")
def _nearly_optimal(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    measured = f"at worst below the optimum by {by_budget(value, lambda f: percent(f['below']))}"
    return measured, verdict(*(value[name]["below"] <= value[name]["epsilon"] for name in ("small", "large")))


@claim(CHECKS, "main", "and the approximate solution is nearly feasible")
def _nearly_feasible(facts: AllFacts) -> tuple[str, str]:
    value = facts["value"]
    shown = by_budget(value, lambda f: f"in {f['over']} of {f['trials']} trials by up to {percent(f['worst_over'])}")
    held = all(value[name]["worst_over"] <= value[name]["epsilon"] for name in BUDGETS)
    return f"over budget {shown}; ε allows {percent(value['large']['epsilon'])}", verdict(held)


@claim(CHECKS, "main", "a budget of b = 100 maximizes the cost diversity")
def _diversity(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    loose = scale["fine"]["plain accumulate"]["nodes"]
    binding = scale["binding"]["plain approximate"]["nodes"]
    measured = (
        f"all costs together reach {scale['most_spent']:.3g}, so that b = {scale['budget']:g} does not bind, and makes "
        f"the length ε b / H large: {loose:,} nodes at H = {scale['horizon']}, against {binding:,} with b = H / "
        f"{scale['steps_per_unit']}; with f as written, {scale['fine']['plain approximate']['nodes']:,}"
    )
    return measured, verdict(loose >= binding)


@claim(CHECKS, "main", "ε = .1: cubic-like growth, as expected from its corollary for positive costs")
def _cubic(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    loose, binding = scale["fine"]["plain accumulate"], scale["binding"]["plain approximate"]
    written = scale["fine"]["plain approximate"]
    measured = (
        f"b = {scale['budget']:g}, f without its second case: nodes {power(loose['growth_nodes'])}, time "
        f"{power(loose['growth'])}; f as written: nodes {power(written['growth_nodes'])}; b = H / "
        f"{scale['steps_per_unit']}: nodes {power(binding['growth_nodes'])}, time {power(binding['growth'])}"
    )
    near = [abs(each["growth_nodes"]["exponent"] - 3) < 0.5 for each in (loose, binding)]
    return measured, verdict(*near)


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
    return measured, verdict(plain <= 2)


@claim(CHECKS, "main", "which drastically beats the exact reduction")
def _beats(facts: AllFacts) -> tuple[str, str]:
    scale, reduction = facts["scale"], facts["approximation"]["large"]
    exact, rough = (scale["binding"][method]["seconds"] for method in ("exact", "approximate"))
    plain = scale["fine"]["plain accumulate"]["seconds"]
    measured = (
        f"the plain reduction takes {duration(reduction['seconds']['plain exact'])} at H = {reduction['horizon']} "
        f"already; but at H = {scale['horizon']} and b = H / {scale['steps_per_unit']} Solvent's exact method takes "
        f"{duration(exact)}, its approximation {duration(rough)}"
    )
    doubled = reduction["seconds"]["plain exact"] * reduction["factor"] ** (scale["horizon"] - reduction["horizon"])
    return measured, verdict(doubled > 100 * plain, rough < exact)


@claim(CHECKS, "both", "ε = 1: at most .0008 seconds")
def _coarse(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    plain, ours = (scale["coarse"][method] for method in ("plain accumulate", "approximate"))
    measured = (
        f"{duration(plain['seconds'])} plain, {duration(ours['seconds'])} by Solvent; costs below the length ε b / H = "
        f"{scale['coarse']['epsilon'] * scale['budget'] / scale['horizon']:g} count as 0, and {plain['nodes']:,} nodes "
        f"are left for {scale['horizon']} layers"
    )
    return measured, verdict(plain["seconds"] <= 0.0008 or ours["seconds"] <= 0.0008)


@claim(CHECKS, "both", "ε = 1: over budget by no more than a multiple of 2")
def _twice(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    measured = (
        f"at worst over by {percent(scale['worst_over'])}; as all costs together reach {scale['most_spent']:.3g}, a "
        f"budget of {scale['budget']:g} could not be broken by anybody"
    )
    return measured, verdict(scale["worst_over"] <= 1)
