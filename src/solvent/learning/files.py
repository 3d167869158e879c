"""Files of learned results: numbers, the history, the episodes and the policy in one NPZ archive. No pickle."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvent._version import __version__
from solvent.core.archives import (
    Arrays,
    Header,
    check_array,
    check_names_of_arrays,
    choose_reader,
    describe_other,
    opened,
    read_archive,
    store_archive,
)
from solvent.core.loading import LoadLimits, loading
from solvent.core.paths import read_path
from solvent.errors import LocatedError, ModelError, SolventError, quote
from solvent.model.cmdp import CMDP
from solvent.policy.files import from_bytes
from solvent.policy.table import AugmentedPolicy
from solvent.policy.writing import to_bytes
from solvent.solvers.solution import Status

#: The number of the format; that of archives, whose later versions have a checksum, is a lower bound.
_FORMAT = 3
_KEY = "solvent_learning"
_ARRAYS = {"bounds", "history", "returns", "costs", "policy"}
#: Fields of an entry of the history.
PROGRESS = ("episodes", "gap", "value_lower", "value_upper", "violations", "nodes")
#: Fields of the header, and their types.
_FIELDS: dict[str, type] = {
    "status": str, "guaranteed": bool, "episodes": int, "violations": int, "message": str, "limit_reached": bool,
    "checkpoint_error": str, "resources": list,
}  # fmt: skip


def save_result(result: Any, path: str | Path) -> None:
    """Write a `LearnResult` to a file, atomically; the same as `result.save(path)`."""
    header: dict[str, Any] = {_KEY: _FORMAT, "version": __version__}
    header |= {name: getattr(result, name) for name in _FIELDS}
    header |= {"status": result.status.value, "resources": list(result.resources)}
    header |= {"model_name": result.model_name, "limits": dict(result.limits)}
    policy = b"" if result.status is Status.INFEASIBLE else to_bytes(result.policy)
    arrays: dict[str, NDArray[Any]] = {
        "bounds": np.array([result.value_lower, result.value_upper, result.gap], np.float64),
        "history": np.array(result.history, np.float64).reshape(-1, len(PROGRESS)),
        "returns": result.returns,
        "costs": result.costs,
        "policy": np.frombuffer(policy, np.uint8),
    }
    store_archive(read_path(path, "save", "the path of a result of learning"), arrays, header)


def load_result(path: str | Path, model: CMDP | None = None, *, limits: LoadLimits | None = None) -> dict[str, Any]:
    """Return the fields of a result, with its policy, or None, as `policy`; see `LearnResult.load`."""
    path = read_path(path, "load", "the path of a result of learning")
    with loading(limits):
        try:
            with opened(path) as content:
                other = describe_other(content)
                if other:
                    raise ModelError("file", "a result, as LearnResult.save writes it", other)
                arrays, header = read_archive(content)
                reader = choose_reader(header, _KEY, {_FORMAT: _read}, "a result of learning")
                return reader(header, arrays, model)
        except FileNotFoundError:
            raise ModelError(str(path), "a result of learning", "no such file") from None
        except LocatedError as error:
            raise error.within(str(path)) from None
        except SolventError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(str(path), "a file that can be read", reason) from None
        except MemoryError:
            raise ModelError(str(path), "a result that fits into memory", "one that does not") from None


def _read(header: Header, arrays: Arrays, model: CMDP | None) -> dict[str, Any]:
    check_names_of_arrays(arrays, _ARRAYS)
    given: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        value = header.get(name)
        if type(value) is not kind:
            raise ModelError(f"header, {name}", f"a value of type {kind.__name__}", quote(value))
        given[name] = value
    if given["status"] not in {"within_gap", "limit", "infeasible"}:
        raise ModelError("header, status", "within_gap, limit or infeasible", quote(given["status"]))
    given["status"] = Status(given["status"])
    if not all(isinstance(name, str) for name in given["resources"]):
        raise ModelError("header, resources", "names", quote(given["resources"]))
    given["resources"] = tuple(given["resources"])
    given |= _read_problem(header)
    episodes = given["episodes"]
    if not 0 <= given["violations"] <= episodes < 2**53:
        raise ModelError("header, violations", f"a number from 0 to {episodes}", quote(given["violations"]))
    bounds = check_array(arrays, "bounds", np.float64)
    infeasible = given["status"] is Status.INFEASIBLE
    if bounds.shape != (3,) or not (infeasible or np.isfinite(bounds).all()):
        raise ModelError("bounds", "three finite numbers", quote(bounds.tolist()))
    returns, costs = check_array(arrays, "returns", np.float64), check_array(arrays, "costs", np.float64, 2)
    width = len(given["resources"])
    for name, array, shape in (("returns", returns, (episodes,)), ("costs", costs, (episodes, width))):
        if array.shape != shape:
            raise ModelError(name, f"shape {shape}", f"{array.shape}")
    content = check_array(arrays, "policy", np.uint8).tobytes()
    if bool(content) == infeasible:
        raise ModelError("policy", "none" if infeasible else "a policy", "one" if content else "none")
    lower, upper, gap = (-math.inf, -math.inf, 0.0) if infeasible else bounds.tolist()
    policy = None if infeasible else from_bytes(content, model)
    if policy is not None and not isinstance(policy, AugmentedPolicy):
        raise ModelError("policy", "a policy with a horizon", "a discounted one")
    history = _read_history(check_array(arrays, "history", np.float64, 2))
    numbers = {"value_lower": lower, "value_upper": upper, "gap": gap, "history": history}
    return given | numbers | {"returns": returns, "costs": costs, "policy": policy}


def _read_problem(header: Header) -> dict[str, Any]:
    """Return the name of the model and the limits in words; version 0.2 did not write them."""
    name, limits = header.get("model_name", ""), header.get("limits", {})
    if not isinstance(name, str):
        raise ModelError("header, model_name", "text", quote(name))
    if not isinstance(limits, dict) or not all(isinstance(text, str) for text in limits.values()):
        raise ModelError("header, limits", "texts by resource", quote(limits))
    return {"model_name": name, "limits": limits}


def _read_history(array: NDArray[np.float64]) -> list[list[float]]:
    whole = [PROGRESS.index(name) for name in ("episodes", "violations", "nodes")]
    if array.shape[1] != len(PROGRESS) or not np.isfinite(array).all():
        raise ModelError("history", f"{len(PROGRESS)} finite numbers per plan", f"shape {array.shape}, or others")
    if not ((array[:, whole] >= 0) & (array[:, whole] < 2**53) & (array[:, whole] % 1 == 0)).all():
        raise ModelError("history", "whole numbers for counts", "others")
    return [[int(x) if i in whole else x for i, x in enumerate(row)] for row in array.tolist()]
