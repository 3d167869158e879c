"""Environments of Gymnasium under the names that the installed version has."""

from __future__ import annotations

import gymnasium


def newest(name: str) -> str:
    """Return the id of the newest version of an environment, such as "Taxi-v4" for "Taxi".

    >>> newest("CartPole")
    'CartPole-v1'
    """
    versions = [spec.version for spec in gymnasium.registry.values() if spec.name == name and spec.namespace is None]
    return f"{name}-v{max(version for version in versions if version is not None)}"
