"""Plots of a policy: which kind `--plot` asks for, and the file it is written to."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from solvent.cli.completion import PLOT_KINDS
from solvent.cli.outputs import PLOT_SUFFIXES, Output, plan_output
from solvent.errors import ModelError, did_you_mean, quote

if TYPE_CHECKING:
    from solvent.model.cmdp import CMDP


@dataclass(frozen=True)
class Drawing:
    """A plot that will be written.

    Attributes
    ----------
    kind : str
        One of `PLOT_KINDS`.
    output : Output
    """

    kind: str
    output: Output

    def draw(
        self,
        path: Path,
        model: CMDP,
        policy: Any,
        *,
        states: list[Hashable] | None = None,
        step: int | None = None,
        resource: str | None = None,
        **spending: Any,
    ) -> None:
        """Write the plot of a policy.

        Parameters
        ----------
        path : Path
        model : CMDP
        policy : AugmentedPolicy
        states : list of hashables, optional
            States to show, if the kind is "policy".
        step : int, optional
            Step to show, if the kind is "states" or "value".
        resource : str, optional
            Resource whose amounts are shown, unless the kind is "spending".
        **spending
            Further arguments of `spending_panels`, if the kind is "spending".
        """
        from solvent.plot.files import save

        if self.kind == "policy":
            from solvent.plot.panels import policy_panels

            save(policy_panels(policy, states, resource), path)
        elif self.kind == "spending":
            from solvent.plot.panels import spending_panels

            save(spending_panels(model, policy, **spending), path)
        else:
            from solvent.plot.heat import heat_map

            show: Literal["action", "value"] = "action" if self.kind == "states" else "value"
            save(heat_map(policy, step=step, resource=resource, show=show, model=model), path)


def plan_drawing(plot: str | None, default: str, inputs: tuple[Path, ...]) -> Drawing | None:
    """Return the plot that `--plot [KIND=]FILE` asks for, after checking that it can be written.

    Parameters
    ----------
    plot : str or None
    default : str
        The kind if none is given.
    inputs : tuple of Path
        Files that are read and must not be overwritten.

    Raises
    ------
    ModelError
        If the file cannot be written, there is a kind without a file, or a kind is misspelled.
    """
    if plot is None:
        return None
    kind, separator, file = plot.partition("=")
    if kind not in PLOT_KINDS:
        meant = did_you_mean(kind, PLOT_KINDS) if separator and kind.isalpha() else ""
        if meant:
            raise ModelError(f"--plot {plot}", f"one of {', '.join(PLOT_KINDS)}", quote(kind), meant)
        kind, file = default, plot
    elif not separator or not file:
        raise ModelError("--plot", f"{kind}=FILE", quote(plot), f"write --plot {kind}={kind}.png")
    output = plan_output("--plot", Path(file), inputs=inputs, suffixes=PLOT_SUFFIXES)
    assert output is not None
    return Drawing(kind, output)
