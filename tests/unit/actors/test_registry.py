from pathlib import Path

import pytest

from runtime import registry as registry_module
from runtime.errors import Fault
from runtime.registry import Registry, load_plugins
from runtime.rules import REWARD_HANDLERS, compose


def test_unknown_name_is_refused_on_its_field() -> None:
    registry = Registry[int]("reward handler")
    registry.register("b", 2)
    registry.register("a", 1)
    with pytest.raises(Fault) as caught:
        registry.require("x", "reward_handler")
    description = "unknown reward handler 'x'; registered: a, b"
    assert caught.value.facts["violations"] == [{"field": "reward_handler", "description": description}]


PLUGIN = """
from runtime.rules import REWARD_HANDLERS, Award, Outcome, Trail
from runtime.rules.payloads import NoPayload
from runtime.rules.reading import Name, Part, read


class Config(Part, frozen=True):
    prize_id: Name


class EverybodyWins:
    Config = Config
    Payload = NoPayload

    def parse(self, raw):
        return read(Config, raw, "handler_config")

    def prizes(self, config):
        return [("handler_config.prize_id", config.prize_id)]

    def currencies(self, config):
        return []

    def decide(self, attempt):
        trail = Trail(attempt)
        awards = [Award(attempt.config.prize_id, 1)] if trail.available(attempt.config.prize_id, 1) else []
        return Outcome(awards, [], {}, trail.path, 0)


def register():
    REWARD_HANDLERS.register("everybody_wins", EverybodyWins())
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where to write plugin modules; what they register is forgotten after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(REWARD_HANDLERS, "_things", dict(REWARD_HANDLERS._things))
    monkeypatch.setattr(registry_module, "_loaded", set())
    return tmp_path


def test_plugin_adds_a_reward_handler_once(plugins: Path) -> None:
    (plugins / "tombola_plugin_wins.py").write_text(PLUGIN)
    load_plugins(["tombola_plugin_wins"])
    load_plugins(["tombola_plugin_wins"])
    assert "everybody_wins" in REWARD_HANDLERS.names()
    compose("none", "everybody_wins", "basic", {"prize_id": "prize_a"})
    with pytest.raises(Fault, match=r"handler_config\.prize_id"):
        compose("none", "everybody_wins", "basic", {})


def test_plugin_that_takes_a_taken_name_stops_the_start(plugins: Path) -> None:
    (plugins / "tombola_plugin_taken.py").write_text(PLUGIN.replace('"everybody_wins"', '"probability"'))
    with pytest.raises(RuntimeError, match=r"PLUGINS.*tombola_plugin_taken.*'probability' is already registered"):
        load_plugins(["tombola_plugin_taken"])


def test_plugin_that_cannot_be_imported_is_named(plugins: Path) -> None:
    (plugins / "tombola_plugin_broken.py").write_text("1 / 0")
    for name in ("tombola_plugin_nowhere", "tombola_plugin_broken"):
        with pytest.raises(RuntimeError, match=rf"PLUGINS.*{name}"):
            load_plugins([name])
