"""The ways to make a model, as `CMDP` offers them; each lives in a module of its own.

With `horizon=None` and `discount=...` the same ways lead to a `DiscountedCMDP`, which has no last step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from solvent.core.exact import Number
    from solvent.model.build import Builder
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.model.discounted_build import DiscountedBuilder


class ModelConstructors:
    """Constructors by name; they need no instance."""

    @overload
    @staticmethod
    def builder(
        *,
        horizon: int,
        start: Hashable,
        resources: Sequence[str] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: Any = None,
        name: str = "",
        description: str = "",
    ) -> Builder: ...

    @overload
    @staticmethod
    def builder(
        *,
        horizon: None = None,
        discount: Number,
        start: Hashable,
        resources: Sequence[str] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: Any = None,
        name: str = "",
        description: str = "",
    ) -> DiscountedBuilder: ...

    @staticmethod
    def builder(
        *,
        horizon: int | None = None,
        discount: Number | None = None,
        start: Hashable,
        resources: Sequence[str] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: Any = None,
        name: str = "",
        description: str = "",
    ) -> Any:
        """Return a `Builder`, to state a model row by row in names; a `DiscountedBuilder` with a discount."""
        from solvent.model.build import Builder
        from solvent.model.discounted import read_discount
        from solvent.model.discounted_build import DiscountedBuilder

        options: dict[str, Any] = {"start": start, "resources": resources, "states": states, "actions": actions}
        options |= {"budget": budget, "name": name, "description": description}
        factor = read_discount(horizon, discount)
        if factor is not None:
            return DiscountedBuilder(discount=factor, **options)
        assert horizon is not None
        return Builder(horizon=horizon, **options)

    @overload
    @staticmethod
    def from_arrays(P: Any, R: Any, C: Any, *, horizon: int, **options: Any) -> CMDP: ...

    @overload
    @staticmethod
    def from_arrays(
        P: Any, R: Any, C: Any, *, horizon: None = None, discount: Number, **options: Any
    ) -> DiscountedCMDP: ...

    @staticmethod
    def from_arrays(
        P: Any, R: Any, C: Any, *, horizon: int | None = None, discount: Number | None = None, **options: Any
    ) -> Any:
        """Return the model of transition, reward and cost arrays; see `solvent.model.arrays.from_arrays`."""
        from solvent.model.arrays import from_arrays
        from solvent.model.discounted import read_discount
        from solvent.model.discounted_build import discounted_arrays

        factor = read_discount(horizon, discount)
        if factor is not None:
            return discounted_arrays(P, R, C, factor, **options)
        assert horizon is not None
        return from_arrays(P, R, C, horizon=horizon, **options)

    @overload
    @staticmethod
    def from_function(
        start: Hashable,
        actions: Callable[..., Iterable[Hashable]],
        outcomes: Callable[..., Iterable[Any]],
        horizon: int,
        **options: Any,
    ) -> CMDP: ...

    @overload
    @staticmethod
    def from_function(
        start: Hashable,
        actions: Callable[..., Iterable[Hashable]],
        outcomes: Callable[..., Iterable[Any]],
        horizon: None = None,
        *,
        discount: Number,
        **options: Any,
    ) -> DiscountedCMDP: ...

    @staticmethod
    def from_function(
        start: Hashable,
        actions: Callable[..., Iterable[Hashable]],
        outcomes: Callable[..., Iterable[Any]],
        horizon: int | None = None,
        *,
        discount: Number | None = None,
        **options: Any,
    ) -> Any:
        """Return the model reachable from `start`; see `solvent.model.explore.from_function`."""
        from solvent.model.discounted import read_discount
        from solvent.model.discounted_build import discounted_function
        from solvent.model.explore import from_function

        factor = read_discount(horizon, discount)
        if factor is not None:
            return discounted_function(start, actions, outcomes, factor, **options)
        assert horizon is not None
        return from_function(start, actions, outcomes, horizon, **options)

    @staticmethod
    def from_gymnasium(env: Any, cost: Any, horizon: int, **options: Any) -> CMDP:
        """Return the model of a Gymnasium environment with a `P` table; see `explore.from_gymnasium`."""
        from solvent.model.explore import from_gymnasium

        return from_gymnasium(env, cost, horizon, **options)
