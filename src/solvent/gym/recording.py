"""Meters inside an environment: which one records given resources."""

from __future__ import annotations

from typing import Any

import gymnasium

from solvent.errors import ModelError, did_you_mean, quote
from solvent.gym.env import ModelEnv
from solvent.model.metering import layers


def meters_of(env: Any) -> list[Any]:
    """Return the meters of an environment, the outermost first."""
    vector = isinstance(env, gymnasium.vector.VectorEnv)
    if vector or (not isinstance(env, gymnasium.Env) and hasattr(env, "num_envs")):
        found, hint = f"a vector of {env.num_envs} environments", "evaluate one of them, or a new one like them"
        raise ModelError("evaluate", "a single Gymnasium environment", found, hint)
    meters = [layer for layer in layers(env) if callable(getattr(type(layer), "attach", None))]
    if not meters:
        hint = "put solvent.gym.CostMeter(env, cost=...) directly around the environment"
        raise ModelError("evaluate", "an environment with a meter inside", quote(env), hint)
    return meters


def recording_meter(env: Any, resources: tuple[str, ...], where: str = "budget") -> Any:
    """Return the innermost meter that records some resources."""
    meters = meters_of(env)
    for meter in reversed(meters):
        if not callable(getattr(meter, "meters", None)) or meter.meters(resources):
            return meter
    known = [name for meter in meters if isinstance(meter, ModelEnv) for name in meter.model.resources]
    listed = ", ".join(map(quote, known)) or "none"
    unknown = next((name for name in resources if name not in known), "")
    hint = did_you_mean(unknown, known)
    raise ModelError(where, f"resources that the meter records ({listed})", quote(unknown), hint)
