"""Every claim of the paper's section Additional Experiments that the main text does not make, checked."""

from __future__ import annotations

from solvent.experiments.experiment import Facts, duration, percent, power, ratio
from solvent.experiments.transcription import relative_length, solve_approximate, solve_exact
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


@claim(
    CHECKS, "appendix", "conjecture: under well-concentrated costs, such as uniform costs, both schemes perform well"
)
def _conjecture(facts: AllFacts) -> tuple[str, str]:
    fixed, growing = facts["far"]["fixed"], facts["far"]["growing"]
    parts = [
        f"{each['name']}: {percent(each['approximate']['off'])} above and {percent(each['strict']['off'])} below"
        for each in (fixed, growing)
    ]
    within = [each[m]["off"] <= 0.05 for each in (fixed, growing) for m in ("approximate", "strict")]
    small = facts["value"]["small"]
    measured = (
        f"at H = {facts['far']['horizon']}, {'; '.join(parts)} the optimum; at b = {small['budget']:g} up to "
        f"{percent(small['below'])} below"
    )
    return measured, verdict(all(within), small["below"] <= small["epsilon"])


@claim(CHECKS, "appendix", "even for ε = .1 the approximation performs very well (H up to 16)")
def _performs(facts: AllFacts) -> tuple[str, str]:
    found = facts["approximation"]
    shown = by_budget(found, lambda f: f"in {f['matched']} of {f['trials']} trials")
    held = [found[name]["matched"] >= 0.9 * found[name]["trials"] for name in PAPER]
    return f"the optimal value {shown}", verdict(*held)


@claim(CHECKS, "appendix", "at H = 15 the exact method takes over a minute")
def _over_a_minute(facts: AllFacts) -> tuple[str, str]:
    text = facts["approximation"]["text"]
    return f"{duration(text['seconds']['plain exact'])} plain (H = B = {text['horizon']})", NOT_COMPARABLE


@claim(CHECKS, "appendix", "which is unsurprising as the complexity grows like 2^15")
def _doubling(facts: AllFacts) -> tuple[str, str]:
    large = facts["approximation"]["large"]
    measured = f"each step multiplies the nodes by {large['factor_nodes']:.2f} and the time by {large['factor']:.2f}"
    return measured, verdict(abs(large["factor_nodes"] - 2) < 0.2)


@claim(CHECKS, "appendix", "our approximate methods easily handle much larger instances")
def _larger(facts: AllFacts) -> tuple[str, str]:
    scale, large = facts["scale"], facts["approximation"]["large"]
    rough, exact = scale["fine"]["plain accumulate"]["seconds"], large["seconds"]["plain exact"]
    measured = (
        f"H = {scale['horizon']} in {ratio(rough, exact)} the time that the reduction takes at H = {large['horizon']}, "
        "both plain"
    )
    return measured, verdict(rough < exact)


@claim(
    CHECKS,
    "appendix",
    "b = 10 is close to the maximum time horizon, which is an upper bound on the value ever achievable",
)
def _upper_bound(facts: AllFacts) -> tuple[str, str]:
    large = facts["approximation"]["large"]
    measured = (
        f"an upper bound, yes, as no reward and no cost is above 1; b = {large['budget']:g} is "
        f"{percent(large['budget'] / large['horizon'])} of H = {large['horizon']}, and more than the sum of all "
        "costs, about H / 2"
    )
    return measured, verdict(large["most_per_step"] <= 1, large["budget"] >= 0.9 * large["horizon"])


def much_larger() -> tuple[float, float]:
    """Return the approximate value and the optimum where the only item costs 4 % more than the budget.

    Examples
    --------
    >>> much_larger()
    (1.0, 0.0)
    """
    model = instances.knapsack([1, 0], [104, 1])
    return solve_approximate(model, 100, relative_length(0.1, 100, 2)).value, solve_exact(model, 100).value


@claim(CHECKS, "appendix", "the approximate value, in general, could be much larger than the exact method")
def _much_larger(facts: AllFacts) -> tuple[str, str]:
    rough, optimum = much_larger()
    measured = (
        f"the share of the approximate value above the optimum is at most "
        f"{by_budget(facts['value'], lambda f: percent(f['above']))} (H up to {facts['value']['large']['horizon']}); "
        f"but if the only item of positive value costs 1.04 B, it is {rough:g} and the optimum is {optimum:g}"
    )
    return measured, verdict(rough > 2 * optimum)


@claim(CHECKS, "appendix", "with b = .1 few costs are induced, and even the exact method is fast")
def _few(facts: AllFacts) -> tuple[str, str]:
    small, large = facts["approximation"]["small"], facts["approximation"]["large"]
    took, longer = (each["seconds"]["plain exact"] for each in (small, large))
    measured = (
        f"{small['nodes']:,} nodes and {duration(took)} at H = {small['horizon']}; b = {large['budget']:g} takes "
        f"{ratio(longer, took)} as long"
    )
    return measured, verdict(longer > 10 * took)


@claim(CHECKS, "appendix", "with b = 10 many cumulative costs are induced, and the exact method is slow")
def _many(facts: AllFacts) -> tuple[str, str]:
    small, large = facts["approximation"]["small"], facts["approximation"]["large"]
    took = large["seconds"]["plain exact"]
    measured = (
        f"{large['nodes']:,} nodes and {duration(took)} at H = {large['horizon']}; in {large['all_subsets']} trials "
        "there is a node for every subset of the actions: the budget excludes none"
    )
    return measured, verdict(took > 10 * small["seconds"]["plain exact"])


@claim(
    CHECKS,
    "appendix",
    "for small budgets the approximation does not have much benefit and can even be slightly faster",
)
def _no_benefit(facts: AllFacts) -> tuple[str, str]:
    seconds = facts["approximation"]["small"]["seconds"]
    exact, rough = seconds["plain exact"], seconds["plain approximate"]
    word = "faster" if rough < exact else "slower"
    measured = f"{duration(exact)} for the reduction, {duration(rough)} for the approximation, both plain: {word}"
    return measured, verdict(rough > exact / 3, rough < exact)


@claim(CHECKS, "appendix", "for larger budgets it is leagues faster")
def _leagues(facts: AllFacts) -> tuple[str, str]:
    large = facts["approximation"]["large"]
    exact, rough, ours = (large["seconds"][method] for method in ("plain exact", "plain approximate", "exact"))
    measured = (
        f"{duration(rough)} instead of {duration(exact)} ({ratio(exact, rough)}), both plain; Solvent's exact method "
        f"takes {duration(ours)} (H = {large['horizon']})"
    )
    return measured, verdict(exact > 10 * rough)


@claim(CHECKS, "appendix", "one-hundredth of a second instead of over a minute and a half")
def _hundredth(facts: AllFacts) -> tuple[str, str]:
    seconds = facts["approximation"]["large"]["seconds"]
    exact, rough = seconds["plain exact"], seconds["plain approximate"]
    return f"{ratio(exact, rough)} as long; in the paper's seconds {ratio(90, 0.01)}", NOT_COMPARABLE


@claim(CHECKS, "appendix", "in these instances it exactly matched the value of the exact method")
def _matched(facts: AllFacts) -> tuple[str, str]:
    found = facts["approximation"]
    shown = by_budget(
        found, lambda f: f"{f['matched_closest']} of {f['horizon']} horizons ({f['matched']} of {f['trials']} trials)"
    )
    held = [found[name]["matched_closest"] == found[name]["horizon"] for name in PAPER]
    return f"in the closest trial, which the paper shows, of {shown}", verdict(*held)


@claim(CHECKS, "appendix", "which indicates that the approximate policies might not go over budget")
def _indicates(facts: AllFacts) -> tuple[str, str]:
    found = facts["approximation"]
    shown = by_budget(found, lambda f: f"in {f['over']} of {f['trials']} trials, by up to {percent(f['worst_over'])}")
    return f"over budget {shown}", verdict(*(found[name]["over"] == 0 for name in PAPER))


@claim(CHECKS, "appendix", "of which the no-violation results are further evidence")
def _further(facts: AllFacts) -> tuple[str, str]:
    rough, safe = facts["approximation"], facts["never-over"]
    shown = by_budget(safe, lambda f: f"{f['optimal']} of {f['trials']}")
    over = by_budget(rough, lambda f: f"{f['over']} of {f['trials']}")
    measured = f"that scheme is optimal in {shown}; the approximation, a different policy, is over budget in {over}"
    return measured, verdict(*(rough[name]["over"] == 0 for name in PAPER))


@claim(CHECKS, "appendix", "the no-violation scheme is generally suboptimal")
def _suboptimal(facts: AllFacts) -> tuple[str, str]:
    found = facts["never-over"]
    shown = by_budget(found, lambda f: f"in {f['trials'] - f['optimal']} of {f['trials']} trials")
    below = any(found[name]["optimal"] < found[name]["trials"] for name in PAPER)
    return f"below the optimum {shown}; the claim is that it can be", verdict(below)


@claim(CHECKS, "appendix", "the no-violation scheme gets the optimal value in nearly every trial (H up to 14)")
def _nearly_every(facts: AllFacts) -> tuple[str, str]:
    found = facts["never-over"]
    shown = by_budget(
        found, lambda f: f"in {f['optimal']} of {f['trials']} trials, at worst {percent(f['below'])} below,"
    )
    ours = found["binding"]["optimal_ours"]
    held = [found[name]["optimal"] >= 0.9 * found[name]["trials"] for name in PAPER]
    return f"{shown} (Solvent's own scheme: {ours} of {found['binding']['trials']} there)", verdict(*held)


@claim(CHECKS, "appendix", "it is much faster than the exact method")
def _faster(facts: AllFacts) -> tuple[str, str]:
    found = facts["never-over"]

    def shown(each: Facts) -> str:
        return f"{duration(each['seconds']['plain strict'])} against {duration(each['seconds']['plain exact'])}"

    quick = [found[name]["seconds"]["plain exact"] > 3 * found[name]["seconds"]["plain strict"] for name in PAPER]
    return f"{by_budget(found, shown)} (plain, H = {found['large']['horizon']})", verdict(*quick)


@claim(CHECKS, "appendix", "the exact method is too slow for H = 20")
def _too_slow(facts: AllFacts) -> tuple[str, str]:
    beyond = facts["approximation"]["beyond"]
    layers, exact = (beyond["seconds"][method] for method in ("reduction", "exact"))
    measured = (
        f"H = {beyond['horizon']}: {duration(layers)} for the same {beyond['nodes']:,} nodes in compiled code, "
        f"{duration(exact)} for Solvent's exact method; the meaning of too slow depends on the machine"
    )
    return measured, NOT_COMPARABLE


@claim(CHECKS, "appendix", "when the two schemes coincide, both are optimal")
def _coincide(facts: AllFacts) -> tuple[str, str]:
    found = [facts["value"][name] for name in BUDGETS]
    met, optimal = (sum(each[key] for each in found) for key in ("coincide", "coincide_optimal"))
    return f"they coincide in {met} trials, and are optimal in {optimal} of them", verdict(met == optimal)


@claim(CHECKS, "both", "and it is evidence that the approximate policy is within budget")
def _evidence(facts: AllFacts) -> tuple[str, str]:
    found = [facts["value"][name] for name in BUDGETS]
    met, over = (sum(each[key] for each in found) for key in ("coincide", "coincide_over"))
    measured = f"the approximate policy is over budget in {over} of the {met} trials in which they coincide"
    return measured, verdict(over == 0)


@claim(CHECKS, "appendix", "both schemes scale roughly quadratically in H (H up to 50)")
def _quadratic(facts: AllFacts) -> tuple[str, str]:
    value, methods = facts["value"], ("plain approximate", "plain strict")
    parts = []
    for name in ("large", "binding", "small"):
        nodes, times = (
            " and ".join(power(value[name][kind][method]) for method in methods) for kind in ("growth_nodes", "growth")
        )
        parts.append(f"b = {value[name]['budget']:g}: nodes {nodes}, time {times}")
    measured = (
        f"approximation and scheme, {'; '.join(parts)}. Nodes at the first budget decide; at the last there are too "
        "few for a fit. A fit over three horizons is weak evidence"
    )
    return measured, verdict(*(grows_like(value["large"]["growth_nodes"][method], 2) for method in methods))


@claim(CHECKS, "appendix", "for ε = .01 the quadratic-like growth is still present")
def _finer(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    finer = scale["finer"]["plain accumulate"]
    measured = (
        f"ε = {scale['finer']['epsilon']:g}: nodes {power(finer['growth_nodes'])}, which decides; time "
        f"{power(finer['growth'])}"
    )
    return measured, verdict(grows_like(finer["growth_nodes"], 2))


@claim(CHECKS, "appendix", "for ε = .01, H = 100 takes 2 seconds")
def _finer_seconds(facts: AllFacts) -> tuple[str, str]:
    finer = facts["scale"]["finer"]
    plain, ours = (duration(finer[method]["seconds"]) for method in ("plain accumulate", "approximate"))
    return f"{plain} plain, {ours} by Solvent", NOT_COMPARABLE


@claim(CHECKS, "appendix", "the no-violation scheme could equivalently handle instances as large (H = 100)")
def _equivalently(facts: AllFacts) -> tuple[str, str]:
    large, far = facts["value"]["large"], facts["far"]["growing"]
    rough, safe = (large["seconds"][method] for method in ("plain approximate", "plain strict"))
    ours = [duration(far[method]["seconds"]) for method in ("approximate", "strict")]
    measured = (
        f"the scheme takes {ratio(safe, rough)} as long, both plain, at b = {large['budget']:g} and H = "
        f"{large['horizon']}, the largest at which both were run plain; Solvent's take {ours[0]} and {ours[1]} at H = "
        f"{facts['far']['horizon']}, {far['name']}"
    )
    return measured, verdict(rough / 2 < safe < 2 * rough)


@claim(CHECKS, "appendix", "the approximation handles an instance 10 times larger than the exact method could")
def _ten_times(facts: AllFacts) -> tuple[str, str]:
    largest, reached = facts["scale"]["horizon"], facts["approximation"]["large"]["horizon"]
    far = facts["far"]
    exact = far["growing"]["exact"]["seconds"]
    measured = (
        f"{largest} is {largest / reached:.3g} times the {reached} of its exact method; Solvent's exact method takes "
        f"{duration(exact)} at H = {far['horizon']}, {far['growing']['name']}"
    )
    return measured, verdict(largest >= 10 * reached)


@claim(CHECKS, "appendix", "and yet runs in a fraction of the time")
def _fraction(facts: AllFacts) -> tuple[str, str]:
    scale, reduction = facts["scale"], facts["approximation"]["large"]
    coarse, fine = (scale[name]["plain accumulate"]["seconds"] for name in ("coarse", "fine"))
    exact = reduction["seconds"]["plain exact"]
    measured = (
        f"at H = {scale['horizon']} {duration(coarse)} with ε = {scale['coarse']['epsilon']:g} and {duration(fine)} "
        f"with ε = {scale['fine']['epsilon']:g}, against {duration(exact)} of the reduction at H = "
        f"{reduction['horizon']}, all plain"
    )
    return measured, verdict(coarse < exact / 2, fine < exact / 2)


@claim(CHECKS, "lemma", "few decimals keep the reduction small (its lemma on precision, which its text does not test)")
def _precision(facts: AllFacts) -> tuple[str, str]:
    precision = facts["precision"]
    parts = [
        f"{cut['digits']} decimals {cut['nodes']['plain exact']:,} nodes, {percent(cut['change'])}"
        for cut in precision["cuts"]
    ]
    few, many = precision["cuts"][0], precision["cuts"][-1]
    measured = (
        f"b = {precision['budget']:g}, nodes at H = {precision['horizon']} and the largest deviation of the value over "
        f"all trials up to that H: {'; '.join(parts)}. Solvent has at most "
        f"{max(cut['nodes']['exact'] for cut in precision['cuts']):,} points at any precision"
    )
    return measured, verdict(few["nodes"]["plain exact"] < many["nodes"]["plain exact"] / 2)
