"""Counters that cost little: what they export is what Prometheus expects."""

from __future__ import annotations

from prometheus_client import REGISTRY

from runtime.metrics import Counts, Histogram


def test_histogram_buckets_are_cumulative_and_include_their_bound() -> None:
    made = Histogram("test_times", "Times.", ["route"], bounds=(1, 2))
    try:
        series = made.series("a")
        for value in (0.5, 1, 1.5, 2, 3):
            series.observe(value)
        (family,) = made.collect()
        found = {(sample.name, sample.labels.get("le", "")): sample.value for sample in family.samples}
        assert found == {
            ("test_times_bucket", "1"): 2,
            ("test_times_bucket", "2"): 4,
            ("test_times_bucket", "+Inf"): 5,
            ("test_times_count", ""): 5,
            ("test_times_sum", ""): 8,
        }
    finally:
        REGISTRY.unregister(made)


def test_counts_export_known_labels_before_the_first_event() -> None:
    made = Counts("test_refusals", "Refusals.", ["guard"], [("stock",)])
    try:
        made.add("turns")
        (family,) = made.collect()
        assert {sample.labels["guard"]: sample.value for sample in family.samples} == {"stock": 0, "turns": 1}
        assert {sample.name for sample in family.samples} == {"test_refusals_total"}
    finally:
        REGISTRY.unregister(made)
