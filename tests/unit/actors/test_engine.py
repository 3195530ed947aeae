"""What a process remembers of the catalogue is the newest that it has seen."""

from __future__ import annotations

from runtime.actors.engine import Engine


def test_catalogues_version_never_goes_back() -> None:
    engine = object.__new__(Engine)  # It needs no stores for this.
    engine.catalog_versions = {}
    for tenant, version in (("a", 0), ("b", 1), ("c", 3), ("c", 2), ("d", 3), ("d", 4)):
        engine.catalog_changed(tenant, version)
    assert engine.catalog_versions == {"b": 1, "c": 3, "d": 4}
