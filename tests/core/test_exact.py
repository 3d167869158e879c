from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from solvent import ModelError
from solvent.core.exact import MAX_TICKS, ExactColumn, canonical, common_unit, exact, exact_column
from solvent.model.amounts import as_typed

doubles = st.floats(allow_nan=False, allow_infinity=False)
#: Doubles with up to 17 digits at any scale.
typed = st.builds(
    lambda digits, exponent: float(f"{digits}e{exponent}"),
    st.one_of(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(-(10**17), 10**17)),
    st.integers(-330, 285),
)
powers = st.builds(lambda k, ulps: math.ulp(10.0**k) * ulps + 10.0**k, st.integers(-300, 300), st.integers(-3, 3))
any_double = st.one_of(doubles, typed, powers, st.floats(-1e-300, 1e-300), st.floats(0, 1))


def reading(x: float) -> Fraction:
    """Return the first decimal of 1 to 15 digits that converts back to x, else the binary value."""
    for digits in range(15):
        text = f"{x:.{digits}e}"
        if float(text) == x:
            return Fraction(text)
    return Fraction(*x.as_integer_ratio())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, Fraction(3)),
        (-(10**30), Fraction(-(10**30))),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("0.10"), Fraction(1, 10)),
        (Decimal("1E+3"), Fraction(1000)),
        ("1/3", Fraction(1, 3)),
        (" -4/6 ", Fraction(-2, 3)),
        ("0.25", Fraction(1, 4)),
        ("+.5", Fraction(1, 2)),
        ("2.", Fraction(2)),
        ("1e-3", Fraction(1, 1000)),
        ("0.1000000000000000055511151231257827", Fraction("0.1000000000000000055511151231257827")),
        (np.int8(-5), Fraction(-5)),
        (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.5), Fraction(1, 2)),
        (np.longdouble("0.125"), Fraction(1, 8)),
        (np.str_("1/3"), Fraction(1, 3)),
        (0.1, Fraction(1, 10)),
        (-0.0, Fraction(0)),
        (1e300, Fraction(10**300)),
        (0.1 + 0.2, Fraction(*(0.1 + 0.2).as_integer_ratio())),
        (123456789.123456, Fraction("123456789.123456")),
        (Fraction(1, 10**400), Fraction(1, 10**400)),
    ],
)
def test_numbers_are_exact(value: Any, expected: Fraction) -> None:
    result = exact(value)
    assert type(result) is Fraction
    assert result == expected
    assert exact_column([value]).value(0) == expected


NOT_NUMBERS: list[Any] = [True, np.bool_(False), None, [1], {}, b"1", 1j, np.array(0.5), np.array([1])]
NOT_NUMBERS += ["", "abc", "1/0", "1//2", "0x10", "1_000", "nan", "inf", "٣", "1e99999", "9" * 500, "1/" + "9" * 500]
NOT_NUMBERS += [math.nan, math.inf, -math.inf, np.float64("nan"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")]
NOT_NUMBERS += [10**500, Fraction(1, 10**500), Decimal("1e500")]


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_other_values_are_refused_with_their_place(value: Any) -> None:
    with pytest.raises(ModelError, match=r"fuel: expected a (finite )?number"):
        exact(value, "fuel")
    with pytest.raises(ModelError, match="entry 1"):
        exact_column([0, value])


def test_non_finite_entries_of_arrays_are_named() -> None:
    with pytest.raises(ModelError, match=r"cost 2: .* found -inf"):
        exact_column(np.array([0.0, 1.0, -np.inf]), where=lambda i: f"cost {i}")


@given(any_double)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
@example(999999999999999.9)
@example(0.999999999999999)
@example(1e22)
@example(1e23)
def test_floats_are_short_decimals_or_binary(x: float) -> None:
    assert exact(x) == reading(x)


@given(st.lists(any_double, max_size=8))
@example([0.0, 1e-300])
@example([99999999999999.9, -9999999999999.99, 0.000999999999999999, 1e-4])
@example([1e-300, 1e300])
@example([0.0, -0.0])
def test_columns_agree_with_single_numbers(values: list[float]) -> None:
    for column in (exact_column(values), exact_column(np.array(values, np.float64))):
        assert len(column) == len(values)
        if column.decimal_digits == 15:
            assert [column.value(i) for i in range(len(values))] == [exact(x) for x in values]
        else:
            assert column.fits
            for i, x in enumerate(values):
                assert column.value(i) in (exact(x), Fraction(x))
                assert float(column.value(i)) == x


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 1000))
def test_random_doubles_are_kept_bit_exact(values: list[float], steps: int) -> None:
    column = exact_column(np.array(values), steps=steps)
    read_back = [column.value(i) for i in range(len(values))]
    assert [float(value) for value in read_back] == values
    if column.decimal_digits == 0:
        assert read_back == [Fraction(x) for x in values]


def test_a_column_of_draws_is_read_as_binary_and_fits() -> None:
    values = np.random.default_rng(1).random(10_000)
    column = exact_column(values, steps=100)
    assert column.fits
    assert column.decimal_digits < 15
    assert all(column.value(i) == Fraction(values[i]) for i in range(0, 10_000, 7))


def test_only_the_longest_decimals_are_read_as_binary() -> None:
    draws = np.random.default_rng(1).random(200).tolist()
    column = exact_column([0.5, 0.25, *draws])
    assert column.fits
    # text is never read as binary, and then no unit fits beside 53-bit fractions
    mixed = exact_column(["1/3", "0.1", *draws, 1e15])
    assert mixed.value(0) == Fraction(1, 3)
    assert mixed.value(1) == Fraction(1, 10)


@given(st.lists(st.one_of(st.integers(), st.fractions(), st.decimals(allow_nan=False, allow_infinity=False, places=5))))
def test_the_unit_is_the_greatest_that_divides(values: list[Any]) -> None:
    numbers = [Fraction(value) for value in values]
    column = exact_column(values)
    assert [column.value(i) for i in range(len(values))] == numbers
    nonzero = [x for x in numbers if x]
    if not nonzero:
        assert column.unit == 1
        return
    scale = math.lcm(*(x.denominator for x in nonzero))
    assert column.unit == Fraction(math.gcd(*(int(x * scale) for x in nonzero)), scale)
    assert column.unit == common_unit(numbers)
    assert column.fits == (max(abs(x / column.unit) for x in nonzero) <= MAX_TICKS)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, np.float32])
def test_integer_and_narrow_arrays(dtype: type) -> None:
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    values = np.array([info.min, info.max, 0] if info else [0.1, 1.5, 0], dtype)
    column = exact_column(values)
    assert [column.value(i) for i in range(3)] == [exact(x) for x in values]


def test_int64_extremes_do_not_overflow() -> None:
    column = exact_column(np.array([-(2**63), 1]))
    assert column.value(0) == -(2**63)
    assert not column.fits


def test_equal_columns_have_equal_parts() -> None:
    one, other = exact_column([0.5, "3/2"]), exact_column(np.array([0.5, 1.5]))
    assert one == other
    assert one.unit == Fraction(1, 2)
    assert one != exact_column([0.5, 1.25])
    assert one != "column"
    taken = exact_column([1, 2, 4]).take(np.array([1, 2]))
    assert taken == ExactColumn(np.array([1, 2]), Fraction(2))
    assert canonical(np.array([], np.int64), Fraction(1, 7)).unit == 1


@given(st.one_of(st.fractions(), st.decimals(allow_nan=False, allow_infinity=False, places=30).map(Fraction)))
def test_text_forms_read_back(value: Fraction) -> None:
    text = as_typed(value)
    assert isinstance(text, int) == (value.denominator == 1)
    assert exact(text) == value


def test_text_forms_are_short() -> None:
    assert [as_typed(Fraction(x)) for x in ("3/2", "-1/8", "1/3", "7")] == ["1.5", "-0.125", "1/3", 7]
    assert as_typed(Fraction(1, 2**200)) == f"1/{2**200}"
