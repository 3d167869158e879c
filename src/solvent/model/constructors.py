"""The constructors of `CMDP`. Each calls a function of another module of this package.

With `horizon=None` and a `discount`, they return a `DiscountedCMDP`, which has no last step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from solvent.core.exact import Number
    from solvent.core.progress import ProgressLike
    from solvent.model.budget import BudgetLike
    from solvent.model.build import Builder
    from solvent.model.cmdp import CMDP
    from solvent.model.discounted import DiscountedCMDP
    from solvent.model.discounted_build import DiscountedBuilder
    from solvent.model.ends import EndRewardLike, GoalLike, StartLike
    from solvent.model.episodes import Support
    from solvent.model.resources import ResourceLike


class ModelConstructors:
    """Static methods that make models; a base of `CMDP`."""

    @overload
    @staticmethod
    def builder(
        *,
        horizon: int,
        discount: None = None,
        start: StartLike,
        resources: Sequence[ResourceLike] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> Builder: ...

    @overload
    @staticmethod
    def builder(
        *,
        horizon: None = None,
        discount: Number,
        start: StartLike,
        resources: Sequence[ResourceLike] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: BudgetLike | None = None,
        name: str = "",
        description: str = "",
    ) -> DiscountedBuilder: ...

    @staticmethod
    def builder(
        *,
        horizon: int | None = None,
        discount: Number | None = None,
        start: StartLike,
        resources: Sequence[ResourceLike] = (),
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> Builder | DiscountedBuilder:
        """Return a builder, which states a model row by row.

        Parameters
        ----------
        horizon : int or None
            Number of steps; None with a discount.
        discount : number, optional
            Discount factor of rewards and costs, above 0 and below 1, for a model without a last step.
        start : hashable, or dict of hashable to number
            Name of the state at step 0, or the probability of each possible one by name.
        resources : sequence of str or Resource
            Resources; a `Resource` may have a floor or a ceiling.
        states, actions : sequence of hashables, optional
            All names, in order. If given, any other name is an error.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        end_reward : dict of state to number, sequence with one number per state, or function of the state, optional
            What it is worth to be in a state when the episode ends: after the last step, or on entering a terminal
            state.
        must_end_in : sequence of states, or function of the state, optional
            States in which every episode must end. Default: all.
        name, description : str
            Title and description of the model.

        Returns
        -------
        Builder or DiscountedBuilder
            A `DiscountedBuilder` if there is a discount.

        Examples
        --------
        >>> import solvent
        >>> b = solvent.CMDP.builder(horizon=3, start="home", resources=["fuel"])
        >>> b.add("home", "go", reward=1, outcomes=[(0.7, "home", {"fuel": 1}), (0.3, "home", {"fuel": "3/2"})])
        >>> b.build()
        CMDP(horizon 3, 1 states, 1 actions, 1 rows, 2 outcomes, stationary, resources ['fuel'])
        """
        from solvent.model.build import Builder
        from solvent.model.discounted import read_discount, refuse_ends
        from solvent.model.discounted_build import DiscountedBuilder

        factor = read_discount(horizon, discount)
        if factor is not None:
            refuse_ends(end_reward, must_end_in)
            return DiscountedBuilder(
                discount=factor, start=start, resources=resources, states=states, actions=actions, budget=budget,
                name=name, description=description,
            )  # fmt: skip
        assert horizon is not None
        return Builder(
            horizon=horizon, start=start, resources=resources, states=states, actions=actions, budget=budget,
            end_reward=end_reward, must_end_in=must_end_in, name=name, description=description,
        )  # fmt: skip

    @overload
    @staticmethod
    def from_arrays(
        P: Any,
        R: Any,
        C: Any,
        *,
        horizon: int,
        discount: None = None,
        start: StartLike = 0,
        cost_probability: Any = None,
        available: Any = None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        resources: Sequence[ResourceLike] | None = None,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP: ...

    @overload
    @staticmethod
    def from_arrays(
        P: Any,
        R: Any,
        C: Any,
        *,
        horizon: None = None,
        discount: Number,
        start: StartLike = 0,
        cost_probability: Any = None,
        available: Any = None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        resources: Sequence[ResourceLike] | None = None,
        budget: BudgetLike | None = None,
        name: str = "",
        description: str = "",
    ) -> DiscountedCMDP: ...

    @staticmethod
    def from_arrays(
        P: Any,
        R: Any,
        C: Any,
        *,
        horizon: int | None = None,
        discount: Number | None = None,
        start: StartLike = 0,
        cost_probability: Any = None,
        available: Any = None,
        states: Sequence[Hashable] | None = None,
        actions: Sequence[Hashable] | None = None,
        resources: Sequence[ResourceLike] | None = None,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP | DiscountedCMDP:
        """Return a model from transition, reward and cost arrays.

        Parameters
        ----------
        P : array of shape (S, A, S) or (H, S, A, S), or sparse
            Transition probabilities. Sparse: one matrix of shape (S * A, S), in which row `s * A + a` belongs to state
            s and action a, or a list of A matrices of shape (S, S). With a step axis, a list of H of either.
        R : array of shape (S, A), (H, S, A), (S, A, S) or (H, S, A, S)
            Rewards of actions, or of transitions.
        C : array of shape (S, A), (S, A, d), (H, S, A) or (H, S, A, d)
            Costs of d resources; an array of numbers, objects or text. With `cost_probability`, an axis of n possible
            costs comes before the axis of resources: (S, A, n) or (S, A, n, d), or with a leading step axis.
        horizon : int or None
            Number of steps H; None with a discount.
        discount : number, optional
            Discount factor of rewards and costs, above 0 and below 1, for a model without a last step. The arrays then
            have no step axis.
        start : hashable, or dict of hashable to number
            Name of the state at step 0, a position if `states` is not given; or the probability of each possible one.
        cost_probability : array of shape (S, A, n) or (H, S, A, n), optional
            Probability of each possible cost, independent of the next state.
        available : array of bool, shape (S, A) or (H, S, A), optional
            Actions that each state offers. Default: all. A state that offers none is terminal.
        states, actions, resources : sequence of names, optional
            Names. Default: positions for states and actions; "cost", or "cost0", "cost1", ..., for resources, each of
            which may be a `Resource` with a floor or a ceiling.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        end_reward : dict of state to number, sequence with one number per state, or function of the state, optional
            What it is worth to be in a state when the episode ends: after the last step, or on entering a terminal
            state.
        must_end_in : sequence of states, or function of the state, optional
            States in which every episode must end. Default: all.
        name, description : str
            Title and description of the model.

        Returns
        -------
        CMDP or DiscountedCMDP
            A `DiscountedCMDP` if there is a discount.

        Raises
        ------
        ModelError
            If the shapes do not match or could be read in two ways, or the numbers are not a valid model.

        Examples
        --------
        >>> import numpy as np, solvent
        >>> P = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
        >>> solvent.CMDP.from_arrays(P, R=[[1], [0]], C=[["1/3"], [0]], horizon=4)
        CMDP(horizon 4, 2 states, 1 actions, 2 rows, 3 outcomes, stationary, resources ['cost'])
        """
        from solvent.model.arrays import from_arrays
        from solvent.model.discounted import read_discount, refuse_ends
        from solvent.model.discounted_build import discounted_arrays

        options: dict[str, Any] = {"start": start, "cost_probability": cost_probability, "available": available}
        options |= {"states": states, "actions": actions, "resources": resources, "budget": budget}
        options |= {"name": name, "description": description}
        factor = read_discount(horizon, discount)
        if factor is not None:
            refuse_ends(end_reward, must_end_in)
            return discounted_arrays(P, R, C, factor, **options)
        assert horizon is not None
        options |= {"end_reward": end_reward, "must_end_in": must_end_in}
        return from_arrays(P, R, C, horizon=horizon, **options)

    @overload
    @staticmethod
    def from_function(
        start: StartLike,
        actions: Callable[..., Iterable[Hashable]],
        outcomes: Callable[..., Iterable[Any]],
        horizon: int,
        *,
        discount: None = None,
        reward: Callable[..., float] | None = None,
        resources: Sequence[ResourceLike] = ("cost",),
        stationary: bool = True,
        max_states: int = 1_000_000,
        progress: ProgressLike = True,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP: ...

    @overload
    @staticmethod
    def from_function(
        start: StartLike,
        actions: Callable[..., Iterable[Hashable]],
        outcomes: Callable[..., Iterable[Any]],
        horizon: None = None,
        *,
        discount: Number,
        reward: Callable[..., float] | None = None,
        resources: Sequence[ResourceLike] = ("cost",),
        stationary: bool = True,
        max_states: int = 1_000_000,
        progress: ProgressLike = True,
        budget: BudgetLike | None = None,
        name: str = "",
        description: str = "",
    ) -> DiscountedCMDP: ...

    @staticmethod
    def from_function(
        start: StartLike,
        actions: Callable[..., Iterable[Hashable]],
        outcomes: Callable[..., Iterable[Any]],
        horizon: int | None = None,
        *,
        discount: Number | None = None,
        reward: Callable[..., float] | None = None,
        resources: Sequence[ResourceLike] = ("cost",),
        stationary: bool = True,
        max_states: int = 1_000_000,
        progress: ProgressLike = True,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP | DiscountedCMDP:
        """Return a model of all states that can be reached from `start` within the horizon.

        Parameters
        ----------
        start : hashable, or dict of hashable to number
            State at step 0, or the probability of each possible one. States are the hashable values that `outcomes`
            returns.
        actions : callable
            `actions(state)` returns the actions available in a state, or an empty list if the state is terminal.
        outcomes : callable
            `outcomes(state, action)` returns tuples `(probability, next state, cost[, reward])`, as in `Builder.add`.
        horizon : int or None
            Number of steps; None with a discount.
        discount : number, optional
            Discount factor of rewards and costs, above 0 and below 1, for a model without a last step. The model then
            has all states that can ever be reached.
        reward : callable, optional
            `reward(state, action)` returns the expected reward, to which the rewards of the outcomes are added.
        resources : sequence of str or Resource
            Resources; a `Resource` may have a floor or a ceiling.
        stationary : bool
            If False, all functions take the step as their first argument, as in `actions(step, state)`.
        max_states : int
            Maximum number of states. Exploration stops with an error when there are more.
        progress : bool, "log", ProgressSink or callable
            If True, show a progress bar on a terminal when exploration takes long; otherwise as for `solve`.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        end_reward : dict of state to number, sequence with one number per state, or function of the state, optional
            What it is worth to be in a state when the episode ends: after the last step, or on entering a terminal
            state.
        must_end_in : sequence of states, or function of the state, optional
            States in which every episode must end. Default: all.
        name, description : str
            Title and description of the model.

        Returns
        -------
        CMDP or DiscountedCMDP
            A `DiscountedCMDP` if there is a discount.

        Raises
        ------
        ModelError
            If there are more than `max_states` states, or if the functions return something invalid.

        Examples
        --------
        >>> import solvent
        >>> def actions(floor):
        ...     return ["up", "stay"] if floor < 3 else []
        >>> def outcomes(floor, action):
        ...     return [(1, floor + 1, 2, 10)] if action == "up" else [(1, floor, 0)]
        >>> solvent.CMDP.from_function(0, actions, outcomes, horizon=2).states
        (0, 1, 2)
        """
        from solvent.model.discounted import read_discount, refuse_ends
        from solvent.model.discounted_build import discounted_function
        from solvent.model.functions import from_function

        options: dict[str, Any] = {"reward": reward, "resources": resources, "stationary": stationary}
        options |= {"progress": progress, "budget": budget, "name": name, "description": description}
        options |= {"max_states": max_states}
        factor = read_discount(horizon, discount)
        if factor is not None:
            refuse_ends(end_reward, must_end_in)
            return discounted_function(start, actions, outcomes, factor, **options)
        assert horizon is not None
        options |= {"end_reward": end_reward, "must_end_in": must_end_in}
        return from_function(start, actions, outcomes, horizon, **options)

    @staticmethod
    def from_gymnasium(
        env: Any,
        cost: Number | Sequence[Any] | Mapping[str, Any] | Callable[[Any, Any, Any], Any],
        horizon: int,
        *,
        start: StartLike | None = None,
        resources: Sequence[ResourceLike] = ("cost",),
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP:
        """Return the model of a Gymnasium environment that has a transition table `env.unwrapped.P`.

        Parameters
        ----------
        env : gymnasium.Env
            An environment such as Taxi-v4, FrozenLake-v1 or CliffWalking-v1.
        cost : number, sequence, dict or callable
            The cost of every transition, or a function `cost(state, action, next_state)`.
        horizon : int
            Number of steps.
        start : int, or dict of int to number, optional
            State at step 0, or the probability of each possible one. Default: the initial distribution of the
            environment.
        resources : sequence of str or Resource
            Resources; a `Resource` may have a floor or a ceiling.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        end_reward : dict of state to number, sequence with one number per state, or function of the state, optional
            What it is worth to be in a state when the episode ends: after the last step, or on entering a terminal
            state.
        must_end_in : sequence of states, or function of the state, optional
            States in which every episode must end. Default: all.
        name, description : str
            Title and description of the model. The default title is the id of the environment.

        Raises
        ------
        ModelError
            If the environment has no transition table, or no initial distribution and `start` is not given.

        Notes
        -----
        A transition that ends the episode leads to a terminal state. If the same state can also be entered without
        ending the episode, the terminal copy is called `(state, "done")`.

        Examples
        --------
        >>> import gymnasium, solvent
        >>> solvent.CMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), cost=1, horizon=20)
        CMDP('FrozenLake-v1': horizon 20, 16 states, 4 actions, 44 rows, 128 outcomes, stationary, resources ['cost'])
        """
        from solvent.model.gymnasium_tables import from_gymnasium

        return from_gymnasium(
            env, cost, horizon, start=start, resources=resources, budget=budget, end_reward=end_reward,
            must_end_in=must_end_in, name=name, description=description,
        )  # fmt: skip

    @staticmethod
    def from_frame(
        frame: Any,
        *,
        horizon: int,
        start: StartLike,
        resources: Sequence[ResourceLike] | None = None,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP:
        """Return the model of a data frame with one row per outcome.

        Parameters
        ----------
        frame : pandas.DataFrame, pyarrow.Table, polars.DataFrame, or dict of lists
            Columns `state`, `action`, `next`, and optionally `probability` (default 1), `reward` (default 0),
            `cost_` followed by the name of each resource (default 0), and `step` for rows of one step only. Costs may
            be numbers or text such as "1/3".
        horizon : int
            Number of steps.
        start : hashable, or dict of hashable to number
            Name of the state at step 0, or the probability of each possible one by name.
        resources : sequence of str or Resource, optional
            Resources, in order. Default: those of the columns that begin with `cost_`.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        end_reward : dict of state to number, or function of the state, optional
            What it is worth to be in a state when the episode ends.
        must_end_in : sequence of states, or function of the state, optional
            States in which every episode must end. Default: all.
        name, description : str
            Title and description of the model.

        Raises
        ------
        ModelError
            If a column is missing or unknown, or the rows are not a valid model.

        Examples
        --------
        >>> import solvent
        >>> table = {"state": ["home", "home"], "action": ["go", "go"], "probability": [0.7, 0.3]}
        >>> table |= {"next": ["home", "away"], "cost_fuel": [1, "3/2"], "reward": [1, 1]}
        >>> solvent.CMDP.from_frame(table, horizon=3, start="home")
        CMDP(horizon 3, 2 states, 1 actions, 1 rows, 2 outcomes, stationary, resources ['fuel'])
        """
        from solvent.model.frames import from_frame

        return from_frame(
            frame, horizon=horizon, start=start, resources=resources, budget=budget, end_reward=end_reward,
            must_end_in=must_end_in, name=name, description=description,
        )  # fmt: skip

    @staticmethod
    def from_graph(
        graph: Any,
        source: Hashable,
        target: Hashable,
        weight: str | None = "weight",
        resources: Sequence[ResourceLike] = (),
        *,
        horizon: int | None = None,
        outcomes: str = "outcomes",
        budget: BudgetLike | None = None,
        name: str = "",
        description: str = "",
    ) -> CMDP:
        """Return the model of a constrained shortest path problem on a NetworkX graph.

        States are the nodes that can be reached from the source. An action is the node to go to; in a multigraph, the
        node and the key of the edge. Every episode must end at the target. The reward of an edge is minus its weight,
        so the value of an optimal policy is minus the least (expected) length of a path that keeps the budget.

        Parameters
        ----------
        graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        source, target : node
        weight : str or None
            Attribute of the edges that is minimized; None for no weights.
        resources : sequence of str or Resource
            Attributes of the edges that are costs.
        horizon : int, optional
            Largest number of edges of a path. Default: the number of nodes that can be reached minus one, which is
            enough if no weight or cost is negative and edges are not random; required otherwise.
        outcomes : str
            Attribute of random edges: a list of tuples `(probability, next node, attributes)`. Attributes that an
            outcome does not have are those of the edge.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        name, description : str
            Title and description of the model.

        Raises
        ------
        ModelError
            If a node or an attribute is missing, or a horizon is needed.

        Examples
        --------
        >>> import networkx, solvent  # doctest: +SKIP
        >>> graph = networkx.DiGraph()  # doctest: +SKIP
        >>> graph.add_edge("a", "b", weight=1, time=9)  # doctest: +SKIP
        >>> solvent.CMDP.from_graph(graph, "a", "b", resources=["time"], budget=10)  # doctest: +SKIP
        """
        from solvent.model.graphs import from_graph

        return from_graph(
            graph, source, target, weight, resources, horizon=horizon, outcomes=outcomes, budget=budget, name=name,
            description=description,
        )  # fmt: skip

    @staticmethod
    def from_episodes(
        episodes: Any,
        horizon: int,
        *,
        start: StartLike | None = None,
        resources: Sequence[ResourceLike] = ("cost",),
        support: Support | None = None,
        widen: Mapping[str, Number] | Number | None = None,
        unseen: float = 0.5,
        budget: BudgetLike | None = None,
        end_reward: EndRewardLike | None = None,
        must_end_in: GoalLike | None = None,
        name: str = "",
    ) -> CMDP:
        """Return a model estimated from recorded episodes.

        The probability of an outcome (next state and costs) is the share of the visits of its state and action in which
        it was recorded, and the reward is the mean. A policy for the model never exceeds its budget if every outcome
        that happens is one of the model. Data cannot prove that: the guarantee rests on the support. The description of
        the model says what it rests on.

        Parameters
        ----------
        episodes : list of lists of tuples, or a frame
            Each episode is a list of steps `(state, action, cost, reward, next state)`. A frame (as for `from_frame`)
            has the columns `episode`, `state`, `action`, `reward`, `next`, and `cost_` followed by the name of each
            resource. Its rows are in the order of the steps, or have a column `step`.
        horizon : int
            Number of steps of the model. Episodes may be shorter or longer: the model is stationary, and each recorded
            step counts.
        start : hashable, or dict of hashable to number, optional
            First state of the model. Default: as often as each state was the first of an episode.
        resources : sequence of str or Resource
            Resources; costs of a step are read as in `Builder.add`.
        support : dict of (state, action) to list, or function of state and action, optional
            Further outcomes that are possible, as `(next state, cost)`, whether they were recorded or not.
        widen : number, or dict of numbers by resource, optional
            By how much a cost can exceed the largest one of the same state, action and next state, recorded or in
            `support`: an outcome with that cost is added.
        unseen : float
            Weight of an outcome that was not recorded, in visits.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.
        end_reward : dict of state to number, or function of the state, optional
            What it is worth to be in a state when the episode ends.
        must_end_in : sequence of states, or function of the state, optional
            States in which every episode must end. Default: all.
        name : str
            Title of the model.

        Returns
        -------
        CMDP
            States in which no action was recorded are terminal.

        Raises
        ------
        ModelError
            If a record, the support or another argument is invalid.

        See Also
        --------
        EpisodeCounts.of : How often each row and each outcome of a model was recorded.

        Examples
        --------
        >>> import solvent
        >>> log = [[("home", "go", 1, 5, "away")], [("home", "go", 2, 5, "away")], [("home", "go", 1, 5, "home")]]
        >>> model = solvent.CMDP.from_episodes(log, 2, resources=["fuel"], widen=1)
        >>> model.cost_range(0)
        (Fraction(1, 1), Fraction(3, 1))
        >>> solvent.EpisodeCounts.of(model, log)
        EpisodeCounts(3 episodes, 3 steps, 1 rows, 3 outcomes recorded, 2 not recorded)
        """
        from solvent.model.episodes import from_episodes

        return from_episodes(
            episodes, horizon, start=start, resources=resources, support=support, widen=widen, unseen=unseen,
            budget=budget, end_reward=end_reward, must_end_in=must_end_in, name=name,
        )  # fmt: skip

    @staticmethod
    def from_rddl(
        domain: str | Path,
        instance: str | Path,
        cost: Number | Sequence[Any] | Mapping[str, Any] | Callable[[dict[str, Any], str, dict[str, Any]], Any],
        *,
        horizon: int | None = None,
        resources: Sequence[ResourceLike] = ("cost",),
        max_states: int = 100_000,
        progress: ProgressLike = True,
        budget: BudgetLike | None = None,
    ) -> CMDP:
        """Return the model of a discrete RDDL problem, which pyRDDLGym parses and grounds.

        States and outcomes are enumerated, so this is for small problems. Probabilities are exact until the model
        rounds them to floats. States are named by their fluents as JSON text, actions as in `move(a, b)`; the action
        that changes nothing is `noop`.

        Parameters
        ----------
        domain, instance : str or Path
            Files, or the names of a problem and an instance of rddlrepository.
        cost : number, sequence, dict or callable
            The cost of every transition, or a function `cost(fluents, action, next_fluents)` of the state, the name of
            the action and the next state. RDDL has a reward but no costs.
        horizon : int, optional
            Number of steps. Default: that of the instance.
        resources : sequence of str or Resource
            Resources; a `Resource` may have a floor or a ceiling.
        max_states : int
            Maximum number of states.
        progress : bool, "log", ProgressSink or callable
            As for `from_function`.
        budget : number, Budget, or dict of these by resource, optional
            Default budget of the model.

        Raises
        ------
        ModelError
            If fluents are neither truth values nor integers, actions are not truth values, there are observations or
            distributions other than Bernoulli and KronDelta, or there are too many states.
        SolventError
            If pyRDDLGym, or rddlrepository where it is needed, is not installed.
        """
        from solvent.model.rddl import from_rddl

        return from_rddl(
            domain, instance, cost, horizon=horizon, resources=resources, max_states=max_states, progress=progress,
            budget=budget,
        )  # fmt: skip
