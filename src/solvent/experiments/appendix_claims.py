"""Every claim of the paper's section Additional Experiments that the main text does not make, checked."""

from __future__ import annotations

from solvent.experiments.experiment import Facts, duration, percent, power, ratio
from solvent.experiments.verdicts import BUDGETS, AllFacts, Check, Section, by_budget, claim, verdict

#: Each claim: who makes it, what it says, and the function that checks it.
CHECKS: list[tuple[Section, str, Check]] = []


@claim(CHECKS, "appendix", "conjecture: under uniform costs both schemes perform well")
def _conjecture(facts: AllFacts) -> tuple[str, str]:
    fixed, growing = facts["far"]["fixed"], facts["far"]["growing"]
    parts = [
        f"{each['name']}: {percent(each['approximate']['off'])} above and {percent(each['never over']['off'])} below"
        for each in (fixed, growing)
    ]
    within = [each[m]["off"] <= 0.05 for each in (fixed, growing) for m in ("approximate", "never over")]
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
    held = [found[name]["matched"] >= 0.9 * found[name]["trials"] for name in BUDGETS]
    return f"the optimal value {shown}", verdict(*held)


@claim(CHECKS, "appendix", "at H = 15 the exact method takes over a minute, as the complexity grows like 2^15")
def _doubling(facts: AllFacts) -> tuple[str, str]:
    text, large = facts["approximation"]["text"], facts["approximation"]["large"]
    measured = (
        f"{duration(text['seconds']['plain exact'])}; each step multiplies the nodes by {large['factor_nodes']:.2f} "
        f"and the time by {large['factor']:.2f}"
    )
    return measured, verdict(text["seconds"]["plain exact"] > 60, abs(large["factor_nodes"] - 2) < 0.2)


@claim(CHECKS, "appendix", "with b = .1 few costs are induced, and even the exact method is fast")
def _few(facts: AllFacts) -> tuple[str, str]:
    small = facts["approximation"]["small"]
    took = small["seconds"]["plain exact"]
    return f"{small['nodes']:,} nodes and {duration(took)} at H = {small['horizon']}", verdict(took < 0.1)


@claim(CHECKS, "appendix", "with b = 10 many cumulative costs are induced, and the exact method is slow")
def _many(facts: AllFacts) -> tuple[str, str]:
    small, large = facts["approximation"]["small"], facts["approximation"]["large"]
    took = large["seconds"]["plain exact"]
    measured = (
        f"{large['nodes']:,} nodes and {duration(took)} at H = {large['horizon']}; in {large['all_subsets']} trials "
        "there is a node for every subset of the actions: the budget has ruled out none"
    )
    return measured, verdict(took > 10 * small["seconds"]["plain exact"])


@claim(CHECKS, "appendix", "for small budgets the approximation has not much benefit")
def _no_benefit(facts: AllFacts) -> tuple[str, str]:
    seconds = facts["approximation"]["small"]["seconds"]
    exact, rough = seconds["plain exact"], seconds["plain approximate"]
    measured = f"{duration(exact)} for the reduction, {duration(rough)} for the approximation, both plain"
    return measured, verdict(rough > exact / 3)


@claim(
    CHECKS,
    "appendix",
    "for larger budgets it is leagues faster: one-hundredth of a second instead of over a minute and a half",
)
def _leagues(facts: AllFacts) -> tuple[str, str]:
    large = facts["approximation"]["large"]
    exact, rough, ours = (large["seconds"][method] for method in ("plain exact", "plain approximate", "exact"))
    measured = (
        f"{duration(rough)} instead of {duration(exact)} ({ratio(exact, rough)}), both plain; Solvent's exact method "
        f"takes {duration(ours)} (H = {large['horizon']})"
    )
    return measured, verdict(exact > 10 * rough, exact > 90)


@claim(CHECKS, "appendix", "in these instances it exactly matched the value of the exact method")
def _matched(facts: AllFacts) -> tuple[str, str]:
    found = facts["approximation"]
    shown = by_budget(
        found, lambda f: f"{f['matched_closest']} of {f['horizon']} horizons ({f['matched']} of {f['trials']} trials)"
    )
    paper = [found[name]["matched_closest"] == found[name]["horizon"] for name in ("small", "large")]
    return f"in the closest trial of {shown}", verdict(
        *paper, found["binding"]["matched"] == found["binding"]["trials"]
    )


@claim(CHECKS, "appendix", "which indicates that the approximate policies might not go over budget")
def _indicates(facts: AllFacts) -> tuple[str, str]:
    found = facts["approximation"]
    shown = by_budget(found, lambda f: f"in {f['over']} of {f['trials']} trials, by up to {percent(f['worst_over'])}")
    return f"over {shown}", verdict(*(found[name]["over"] == 0 for name in BUDGETS))


@claim(CHECKS, "appendix", "the no-violation scheme gets the optimal value in nearly every trial (H up to 14)")
def _nearly_every(facts: AllFacts) -> tuple[str, str]:
    found = facts["never-over"]
    shown = by_budget(
        found, lambda f: f"in {f['optimal']} of {f['trials']} trials, at worst {percent(f['below'])} below,"
    )
    ours = found["binding"]["optimal_ours"]
    held = [found[name]["optimal"] >= 0.9 * found[name]["trials"] for name in BUDGETS]
    return f"{shown} (Solvent's own scheme: {ours} of {found['binding']['trials']} there)", verdict(*held)


@claim(CHECKS, "appendix", "it is much faster than the exact method")
def _faster(facts: AllFacts) -> tuple[str, str]:
    found = facts["never-over"]

    def shown(each: Facts) -> str:
        return f"{duration(each['seconds']['plain never over'])} against {duration(each['seconds']['plain exact'])}"

    quick = [found[name]["seconds"]["plain exact"] > 3 * found[name]["seconds"]["plain never over"] for name in BUDGETS]
    return f"{by_budget(found, shown)} (plain, H = {found['large']['horizon']})", verdict(*quick)


@claim(CHECKS, "appendix", "the exact method is too slow for H = 20")
def _too_slow(facts: AllFacts) -> tuple[str, str]:
    beyond = facts["approximation"]["beyond"]
    layers, exact = (beyond["seconds"][method] for method in ("reduction", "exact"))
    measured = (
        f"H = {beyond['horizon']}: {duration(layers)} for the same {beyond['nodes']:,} nodes in compiled code, "
        f"{duration(exact)} for Solvent's exact method"
    )
    return measured, verdict(layers > 60)


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
    value, names = facts["value"], ("large", "binding")
    parts = []
    for name in names:
        rough, safe = (value[name]["growth"][method] for method in ("plain approximate", "plain never over"))
        nodes = value[name]["growth_nodes"]["plain approximate"]
        parts.append(
            f"b = {value[name]['budget']:g}: time {power(rough)} and {power(safe)}, nodes of the first {power(nodes)}"
        )
    near = [
        abs(value[name]["growth_nodes"][method]["exponent"] - 2) < 0.5
        for name in names
        for method in ("plain approximate", "plain never over")
    ]
    return "; ".join(parts), verdict(*near)


@claim(CHECKS, "appendix", "for ε = .01 the quadratic-like growth is still present, and H = 100 takes 2 seconds")
def _finer(facts: AllFacts) -> tuple[str, str]:
    scale = facts["scale"]
    finer = scale["finer"]["plain accumulate"]
    measured = (
        f"ε = {scale['finer']['epsilon']:g}: nodes {power(finer['growth_nodes'])}, time {power(finer['growth'])}, "
        f"{duration(finer['seconds'])} plain and {duration(scale['finer']['approximate']['seconds'])} by Solvent"
    )
    return measured, verdict(abs(finer["growth_nodes"]["exponent"] - 2) < 0.5, finer["seconds"] <= 2)


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
        f"{cut['digits']} decimals {cut['nodes']['plain exact']:,} nodes, {percent(cut['change'])} off"
        for cut in precision["cuts"]
    ]
    few, many = precision["cuts"][0], precision["cuts"][-1]
    measured = (
        f"H = {precision['horizon']}, b = {precision['budget']:g}: {'; '.join(parts)}. Solvent has at most "
        f"{max(cut['nodes']['exact'] for cut in precision['cuts']):,} points with any"
    )
    return measured, verdict(few["nodes"]["plain exact"] < many["nodes"]["plain exact"] / 2)
