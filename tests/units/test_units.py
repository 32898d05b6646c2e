"""Units: known conversions, round trips, and what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium import units
from astrarium.errors import InputError
from astrarium.units import (
    Bandwidth,
    Bytes,
    FlopRate,
    Quantity,
    Time,
    format_bytes,
    format_rate,
    format_time,
    number_in,
)

KINDS = [Time, Bytes, Bandwidth, FlopRate]
POSITIVE = st.floats(min_value=1e-9, max_value=1e18, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("kind", "text", "base"),
    [
        (Bandwidth, "450 GB/s", 450.0),
        (Bandwidth, "400 Gb/s", 50.0),
        (Bandwidth, "1 Gb/s", 0.125),
        (Bandwidth, "3.35 TB/s", 3350.0),
        (Bandwidth, "1 GiB/s", 2**30 / 1e9),
        (Bandwidth, "8 b/s", 1e-9),
        (Time, "500 ns", 500.0),
        (Time, "2us", 2000.0),
        (Time, "2 \u00b5s", 2000.0),
        (Time, "2 \u03bcs", 2000.0),
        (Time, " 1.5 ms ", 1.5e6),
        (Time, "250 ps", 0.25),
        (Time, "1e-3 s", 1e6),
        (Bytes, "80 GiB", 80 * 2**30),
        (Bytes, "80 GB", 80e9),
        (Bytes, "1 kB", 1000.0),
        (Bytes, "0", 0.0),
        (Bytes, 0, 0.0),
        (FlopRate, "989 TFLOP/s", 989_000.0),
        (FlopRate, "1 FLOP/s", 1e-9),
        (FlopRate, "2.25 PFLOP/s", 2.25e6),
    ],
)
def test_known_values(kind: type[Quantity], text: object, base: float) -> None:
    assert float(kind(text)) == base


@given(st.floats(min_value=0.1, max_value=1e5))
def test_gibibytes_are_the_double_that_astra_sim_has(number: float) -> None:
    assert float(Bandwidth(f"{number!r} GiB/s")) == number * (1 << 30) / 1_000_000_000


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Bandwidth, "450", "without a unit"),
        (Bandwidth, 450, "without a unit"),
        (Time, 1.5, "without a unit"),
        (Bandwidth, "450 GBs", "did you mean 'GB/s'"),
        (Bytes, "80 Gib", "did you mean 'GiB'"),
        (FlopRate, "989 TFLOPS", "did you mean"),
        (Time, "5 GB", "not one of a time"),
        (Time, "fast", "not a time"),
        (Time, "-5 ns", "0 or more"),
        (Time, "1e999 ns", "finite"),
        (Time, "nan ns", "not a time"),
        (Time, "inf ns", "not a time"),
        (Time, None, "not a time"),
        (Time, True, "not a time"),
        (Time, [], "not a time"),
        (Bytes, "9" * 200 + " B", "not a size"),
    ],
)
def test_refused(kind: type[Quantity], text: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(text)


def test_a_quantity_of_another_dimension_is_refused() -> None:
    with pytest.raises(InputError, match="not a bandwidth"):
        Bandwidth(Time("5 ns"))


@given(st.sampled_from(KINDS), POSITIVE)
def test_printing_keeps_the_value(kind: type[Quantity], base: float) -> None:
    assert kind(str(kind.of(base))) == base


@given(st.sampled_from(KINDS), st.data(), st.integers(1, 9999), st.integers(0, 3))
def test_a_typed_value_prints_without_noise(
    kind: type[Quantity], data: st.DataObject, digits: int, point: int
) -> None:
    unit = data.draw(st.sampled_from(sorted(kind.units)))
    typed = f"{digits / 10**point:g} {unit}"
    printed = str(kind(typed))
    assert kind(printed) == kind(typed)
    assert len(printed.partition(" ")[0]) <= 12  # no noise in the last digits


@given(st.integers(1, 10**6), st.integers(0, 4))
def test_number_in_gives_back_what_was_typed(digits: int, point: int) -> None:
    typed = digits / 10**point
    assert number_in(float(FlopRate(f"{typed!r} TFLOP/s")), FlopRate, "TFLOP/s") == typed


@given(st.sampled_from(KINDS), POSITIVE)
def test_quantities_survive_copies(kind: type[Quantity], base: float) -> None:
    quantity = kind.of(base)
    for twin in (copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):
        assert type(twin) is kind
        assert twin == quantity


def test_formats_for_people() -> None:
    assert format_time(1_234_567) == "1.235 ms"
    assert format_time(0.25) == "250 ps"
    assert format_time(999.96) == "1 us"
    assert format_time(0) == "0 ps"
    assert format_bytes(1_234_567) == "1.235 MB"
    assert format_bytes(12) == "12 B"
    assert format_rate(450) == "450 GB/s"
    assert format_rate(1200) == "1.2 TB/s"


@pytest.mark.parametrize(("text", "dollars", "written"), [
    ("$6M", 6e6, "6 M$"), ("$ 5.576M", 5.576e6, "5576 k$"), ("36018 $", 36018.0, "36018 $"), ("$2k", 2000.0, "2 k$"),
    ("$0", 0.0, "0 $")])
def test_money_with_the_sign_on_either_side(text: str, dollars: float, written: str) -> None:
    assert units.Money(text) == dollars
    assert str(units.Money(text)) == written
    assert units.Money(str(units.Money(text))) == dollars


@pytest.mark.parametrize(("kind", "text", "said"), [
    (units.Money, "6", "is a number without a unit"), (units.Money, "$6X", "'\\$6X' has the unit"),
    (units.Money, "-$6", "is not a sum of money"), (units.EnergyPrice, "0.08 $", "is not one of a price of energy"),
    (units.CarbonIntensity, "429 g/kWh", "is not one of a carbon intensity"), (units.Lifetime, "4 yr", "is not one"),
    (units.EnergyPerFlop, "0.5 pJ", "is not one of an? energy of an operation")])
def test_money_and_energy_are_as_strict(kind: type[units.Quantity], text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        kind(text)


def test_energy_and_lifetimes() -> None:
    assert units.EnergyPrice("77.1 $/MWh") == pytest.approx(units.EnergyPrice("0.0771 $/kWh"))
    assert units.Lifetime("5 years") == 5 * 8760 == units.Lifetime("1825 days")
    assert units.CarbonIntensity("0.429 kgCO2/kWh") == 429.0
    assert units.EnergyPerFlop("500 fJ/FLOP") == units.EnergyPerFlop("0.5 pJ/FLOP") == 0.0005
