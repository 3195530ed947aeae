import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from ops.api import Api, ApiError, answers
from ops.servers.base import free_port, wait_for
from tests.support.directories import server_directory
from tests.support.kubernetes import of_kind
from tests.support.up import ROOT, up

pytestmark = pytest.mark.timeout(400)

ALERTS: Final = ROOT / "ops/alerts"
RULES: Final = yaml.safe_load((ALERTS / "tombola.yaml").read_text())["groups"][0]["rules"]
DASHBOARD: Final = json.loads((ROOT / "ops/dashboards/tombola.json").read_text())
PANELS: Final = {
    f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "30s")
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
SCALERS: Final = {
    trigger["metadata"]["query"]
    for scaler in of_kind("production-keda", "ScaledObject").values()
    for trigger in scaler["spec"]["triggers"]
}
SELECTOR: Final = re.compile(r"\b((?:tombola|fulfillment)_\w+)(\{[^}]*\})?")
DATA_SECONDS: Final = 90
RUNBOOKS: Final = (ROOT / "docs/how-to/alerts.md").read_text()


def selectors(expr: str) -> set[str]:
    found = set()
    for name, matchers in SELECTOR.findall(expr):
        labels = re.findall(r"(\w+)(?:=~|!=|=)", matchers)
        found.add(name + "{" + ",".join(f'{label}!=""' for label in labels) + "}")
    return found


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (package prometheus)")
@pytest.mark.parametrize("command", [("check", "rules", "tombola.yaml"), ("test", "rules", "tests.yaml")])
def test_rules_pass_promtool(command: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *command], cwd=ALERTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_for_firing_and_for_silence() -> None:
    cases = yaml.safe_load((ALERTS / "tests.yaml").read_text())["tests"]
    tested = [(one["alertname"], bool(one["exp_alerts"])) for case in cases for one in case["alert_rule_test"]]
    assert sorted(tested) == sorted((rule["alert"], fires) for rule in RULES for fires in (True, False))


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert re.findall(r"^### (Tombola\w+)$", RUNBOOKS, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/how-to/alerts.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")


class Prometheus:
    """A server that scrapes a stack each second."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expr: str) -> list[Any]:
        with urlopen(f"{self._url}/api/v1/query?{urlencode({'query': expr})}") as answer:
            return list(json.load(answer)["data"]["result"])

    def without_data(self, queries: set[str]) -> set[str]:
        missing, ends = queries, time.monotonic() + DATA_SECONDS
        while missing and time.monotonic() < ends:
            missing = {query for query in missing if not self.query(query)}
            time.sleep(0.5)  # sleeps: between polls of another process
        return missing

    def targets(self) -> list[Any]:
        with urlopen(f"{self._url}/api/v1/targets") as answer:
            return list(json.load(answer)["data"]["activeTargets"])


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """Scrapes a stack on which somebody plays, wins, and exceeds a rate limit."""
    with server_directory() as folder, up(folder / "data", RATE_LOGIN_BURST="1") as (_, ready):
        address = ready["metrics"]["core"].removeprefix("http://").removesuffix("/metrics")
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}}
        config |= {"rule_files": [str(ALERTS / "tombola.yaml")]}
        config |= {"scrape_configs": [{"job_name": "tombola", "static_configs": [{"targets": [address]}]}]}
        (folder / "prometheus.yaml").write_text(json.dumps(config))
        port = free_port()
        command = [
            *("prometheus", f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'tsdb'}"),
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (folder / "prometheus.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
            try:
                wait_for(lambda: answers(f"http://127.0.0.1:{port}/-/ready"), 30)
                play(ready)
                yield Prometheus(f"http://127.0.0.1:{port}")
            finally:
                server.terminate()


def play(ready: dict[str, Any]) -> None:
    player = Api(ready["consumer_url"], **{"X-Tenant-Id": ready["tenant_id"], "X-Player-Id": "ada"})
    wheel = ready["demo"]["games"]["spin_wheel"]
    for _ in range(3):
        session = player.post(f"/games/{wheel}/start", {})["session_id"]
        player.post(f"/games/{wheel}/play", {"session_id": session, "payload": {}})
    refused = []
    for _ in range(5):
        try:
            player.post("/players/auth/start", {"email": "ada@example.com"})
        except ApiError as error:
            refused.append(error.status)
    assert 429 in refused


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus")
class TestScrape:
    def test_prometheus_accepts_the_scrape(self, prometheus: Prometheus) -> None:
        assert prometheus.without_data({"up == 1"}) == set()
        assert [target["lastError"] for target in prometheus.targets()] == [""]

    def test_every_query_of_the_dashboard_has_data(self, prometheus: Prometheus) -> None:
        missing = prometheus.without_data(set(PANELS.values()))
        assert {title for title, query in PANELS.items() if query in missing} == set()

    def test_every_series_of_an_alert_or_a_scaler_exists(self, prometheus: Prometheus) -> None:
        wanted = {selector for rule in RULES for selector in selectors(rule["expr"])} | SCALERS
        assert prometheus.without_data(wanted) == set()

    def test_quiet_stack_pages_nobody(self, prometheus: Prometheus) -> None:
        firing = prometheus.query('ALERTS{alertstate="firing",severity="page"}')
        assert [one["metric"]["alertname"] for one in firing] == []
