"""A stand-in for Ray in this process: calls run at once, arrays arrive read-only, and actors can be lost at will."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    """The base of its errors."""


class RayActorError(RayError):
    """An actor is lost."""


class RayTaskError(RayError):
    """An error in an actor."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def sent(content: Any) -> Any:
    """Return what arrives in another process, with arrays that are read-only."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(content, 5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=[bytes(each.raw()) for each in buffers])


class _Reference:
    def __init__(self, value: Any, error: Exception | None = None) -> None:
        self.value, self.error = value, error

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class _Method:
    def __init__(self, actor: _Actor, name: str, num_returns: int = 1) -> None:
        self._actor, self._name, self._count = actor, name, num_returns

    def options(self, num_returns: int) -> _Method:
        return _Method(self._actor, self._name, num_returns)

    def remote(self, *arguments: Any) -> Any:
        try:
            found = self._actor._invoke(self._name, arguments)
        except Exception as error:
            found = [_Reference(None, error)] * self._count
        else:
            results = [found] if self._count == 1 else found
            found = [_Reference(each) for each in results]
        return found[0] if self._count == 1 else found if found else None


class _Actor:
    def __init__(self, ray: StandIn, made: type) -> None:
        self._ray, self._made, self.is_dead = ray, made(), False

    def __getattr__(self, name: str) -> _Method:
        return _Method(self, name)

    def _invoke(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self._ray.calls += 1
        self.is_dead |= self._ray.calls in self._ray.losses
        if self.is_dead:
            raise RayActorError("lost")
        given = [each.get() if isinstance(each, _Reference) else each for each in arguments]
        try:
            return sent(getattr(self._made, name)(*sent(given)))
        except Exception as error:
            raise RayTaskError(error) from None


class StandIn:
    """The functions of Ray that are used here.

    Parameters
    ----------
    workers : int
        Number of processors.
    losses : set of int
        The calls, counted from 1, at which an actor is lost.
    """

    exceptions = SimpleNamespace(
        RayActorError=RayActorError, ObjectLostError=RayActorError, OwnerDiedError=RayActorError,
        RaySystemError=RayActorError, WorkerCrashedError=RayActorError, RayTaskError=RayTaskError, RayError=RayError,
    )  # fmt: skip

    def __init__(self, workers: int, losses: set[int] = frozenset()) -> None:
        self._workers, self.losses, self.calls, self.started = workers, losses, 0, 0

    def remote(self, *classes: type, **options: Any) -> Any:
        if not classes:
            return lambda function: function
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: self._start(classes[0])))

    def _start(self, made: type) -> _Actor:
        self.started += 1
        return _Actor(self, made)

    def put(self, content: Any) -> _Reference:
        return _Reference(sent(content))

    def get(self, references: Any) -> Any:
        return [each.get() for each in references] if isinstance(references, list) else references.get()

    def wait(self, references: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return references, []

    def kill(self, actor: _Actor) -> None:
        actor.is_dead = True

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(self._workers)}}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self._workers)}
