"""Sets of steps, stored as ranges, so that a million consecutive steps take two numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise


class StepSet:
    """A set of steps, stored as sorted ranges that neither touch nor overlap.

    Parameters
    ----------
    ranges : iterable of range
        Non-empty ranges of consecutive steps; they may overlap.

    Examples
    --------
    >>> steps = StepSet.of([5, 0, 1, 2])
    >>> steps.ranges, len(steps), list(steps), 3 in steps
    ([range(0, 3), range(5, 6)], 4, [0, 1, 2, 5], False)
    """

    def __init__(self, ranges: Iterable[range]) -> None:
        self.ranges: list[range] = []
        for each in sorted(ranges, key=lambda one: one.start):
            if self.ranges and each.start <= self.ranges[-1].stop:
                if each.stop > self.ranges[-1].stop:
                    self.ranges[-1] = range(self.ranges[-1].start, each.stop)
            else:
                self.ranges.append(each)

    @classmethod
    def of(cls, steps: Iterable[int]) -> StepSet:
        """Return the set of the given steps."""
        listed = sorted(set(steps))
        ends = [i + 1 for i, (before, after) in enumerate(pairwise(listed)) if after != before + 1]
        bounds = pairwise([0, *ends, len(listed)])
        return cls(range(listed[first], listed[last - 1] + 1) for first, last in bounds if first < last)

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __iter__(self) -> Iterator[int]:
        for each in self.ranges:
            yield from each

    def __contains__(self, step: object) -> bool:
        if not isinstance(step, int):
            return False
        at = bisect_right(self.ranges, step, key=lambda one: one.start) - 1
        return at >= 0 and step < self.ranges[at].stop

    def __or__(self, other: StepSet) -> StepSet:
        return StepSet([*self.ranges, *other.ranges])

    def first_shared(self, other: StepSet) -> int | None:
        """Return the first step that is in both sets; None if they are disjoint.

        Examples
        --------
        >>> StepSet([range(0, 9)]).first_shared(StepSet.of([11, 7])), StepSet.of([1]).first_shared(StepSet.of([2]))
        (7, None)
        """
        mine, others, i, j = self.ranges, other.ranges, 0, 0
        while i < len(mine) and j < len(others):
            first = max(mine[i].start, others[j].start)
            if first < min(mine[i].stop, others[j].stop):
                return first
            if mine[i].stop <= others[j].stop:
                i += 1
            else:
                j += 1
        return None
