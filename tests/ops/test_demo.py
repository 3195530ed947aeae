"""`ops/up` makes the demo once for each tenant."""

from pathlib import Path

import pytest

from ops import demo
from ops.devstack import ensure_demo


def test_demo_is_made_once_for_each_tenant_of_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter(({"campaign_id": "camp_1"}, {"campaign_id": "camp_2"}))
    monkeypatch.setattr(demo, "seed", lambda *_: next(seeds))
    edges = {"admin_url": "", "admin_token": ""}
    made = [ensure_demo(tmp_path, {**edges, "tenant_id": tenant})["campaign_id"] for tenant in ("t_1", "t_1", "t_2")]
    assert made == ["camp_1", "camp_1", "camp_2"]
