"""Loading policy files: the flat arrays in an NPZ archive, with a JSON header. No pickle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, overload

from solvent.core.archives import (
    Arrays,
    Header,
    check_names_of_arrays,
    choose_reader,
    describe_other,
    opened,
    read_archive,
)
from solvent.core.loading import LoadLimits, loading
from solvent.core.paths import read_path
from solvent.errors import LoadLimitError, ModelError, PolicyError, SolventError, did_you_mean
from solvent.model.cmdp import CMDP
from solvent.model.discounted import DiscountedCMDP
from solvent.policy.discounted import DiscountedPolicy
from solvent.policy.discounted_files import discounted_from_parts
from solvent.policy.finite_files import rebuild
from solvent.policy.layout import ACCOUNT_ARRAYS, KNOWN_ARRAYS, TAIL_ARRAYS
from solvent.policy.table import AugmentedPolicy


@overload
def load_policy(path: str | Path, model: CMDP, *, limits: LoadLimits | None = None) -> AugmentedPolicy: ...


@overload
def load_policy(path: str | Path, model: DiscountedCMDP, *, limits: LoadLimits | None = None) -> DiscountedPolicy: ...


@overload
def load_policy(
    path: str | Path, model: None = None, *, limits: LoadLimits | None = None
) -> AugmentedPolicy | DiscountedPolicy: ...


def load_policy(
    path: str | Path, model: CMDP | DiscountedCMDP | None = None, *, limits: LoadLimits | None = None
) -> AugmentedPolicy | DiscountedPolicy:
    """Load a policy that `policy.save` wrote.

    Parameters
    ----------
    path : str or Path
        A regular file.
    model : CMDP or DiscountedCMDP, optional
        The model that the policy was made for; `policy.agent()` needs it.
    limits : LoadLimits, optional
        Limits on time, memory and sizes; see `solvent.LoadLimits` for the defaults.

    Raises
    ------
    PolicyError
        If there is no such file, it does not contain a policy, its content does not match its checksum, or it was made
        for another model.
    LoadLimitError
        If loading would exceed `limits`.

    Notes
    -----
    The checksum detects damage. It is not a signature: a file from an untrusted source can contain any policy, so
    `solvent.verify` it against your own budget before you use it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from solvent.model import instances
    >>> from solvent.model.budget import resolve
    >>> from solvent.model.lattice import Lattice
    >>> model = instances.knapsack([3, 4], [2, 3], capacity=4)
    >>> limits = resolve(model, None)
    >>> policy = AugmentedPolicy.from_nodes(
    ...     model, Lattice.fit(model, limits), limits, layers=[([0], [[0]], [0]), ([0], [[0]], [1])]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "knapsack.policy"
    ...     policy.save(file)
    ...     load_policy(file, model) == policy
    True
    """
    path = read_path(path, "load_policy", "the path of a policy file", PolicyError)
    with loading(limits):
        try:
            with opened(path) as content:
                return _checked(path, content, model)
        except FileNotFoundError:
            raise PolicyError(
                str(path), "a policy file", "no such file", did_you_mean(path.name, _near(path))
            ) from None
        except SolventError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PolicyError(str(path), "a policy file that can be read", reason) from None
        except MemoryError:
            raise PolicyError(str(path), "a policy that fits into memory", "one that does not") from None


def _checked(
    path: Path, content: bytes | BinaryIO, model: CMDP | DiscountedCMDP | None
) -> AugmentedPolicy | DiscountedPolicy:
    """Return the policy of a file's content; errors name the file."""
    other = describe_other(content)
    if other:
        hint = "solvent.load_model loads a model" if other.startswith(("JSON", "text")) else ""
        raise PolicyError(str(path), "a policy file, as policy.save writes it", other, hint)
    try:
        return from_bytes(content, model)
    except LoadLimitError as error:
        raise error.within(str(path)) from None
    except (PolicyError, ModelError) as error:
        raise PolicyError(f"{path}: {error.where}", error.expected, error.found, error.hint) from None


def _near(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def from_bytes(
    content: bytes | BinaryIO, model: CMDP | DiscountedCMDP | None = None
) -> AugmentedPolicy | DiscountedPolicy:
    """Return the policy of a file's content; arrays of an open file are mapped into memory, if not compressed.

    Raises
    ------
    PolicyError, ModelError
        If it is not a policy. Object arrays are refused, so that no code in it can run.
    """
    arrays, header = read_archive(content)
    try:
        return choose_reader(header, "solvent_policy", READERS, "a policy")(header, arrays, model)
    except RecursionError:
        raise PolicyError("file", "a policy", "a structure nested too deeply") from None
    except MemoryError:
        raise PolicyError("file", "a policy that fits into memory", "one that does not") from None


def _read(
    header: Header, arrays: Arrays, model: CMDP | DiscountedCMDP | None, *, has_accounts: bool = True
) -> AugmentedPolicy | DiscountedPolicy:
    if not has_accounts:
        check_names_of_arrays(arrays, (KNOWN_ARRAYS | TAIL_ARRAYS) - set(ACCOUNT_ARRAYS))
    is_discounted = isinstance(model, DiscountedCMDP)
    if "discount" in header and (model is None or is_discounted):
        given = model if isinstance(model, DiscountedCMDP) else None
        return discounted_from_parts(arrays, header, given, has_accounts=has_accounts)
    if is_discounted or "discount" in header:
        kinds = ("a discounted model", "one with a horizon")
        raise PolicyError("policy", f"a policy for {kinds[not is_discounted]}", f"one for {kinds[is_discounted]}")
    assert not isinstance(model, DiscountedCMDP)
    check_names_of_arrays(arrays, KNOWN_ARRAYS)
    policy = rebuild(header, arrays, model, has_accounts=has_accounts)
    if model is not None:
        policy.check_counting(model)
    return policy


_read_2 = partial(_read, has_accounts=False)

#: Readers by format. Format 2 is format 1 with a checksum; format 3 has initial amounts, floors, ceilings and several
#: first states. Runs of several resources, or with settled amounts, have no format of their own: versions that do not
#: know them refuse their `lookup`.
READERS: dict[int, Callable[..., AugmentedPolicy | DiscountedPolicy]] = {1: _read_2, 2: _read_2, 3: _read}
