import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.commands.evidence.receipts import read_receipt, verify
from runtime.operations.log.appending import append
from runtime.rules.log.notes import SigningKey, VerifierKey, read_checkpoint, sign_checkpoint
from tests.support.operator import Operator
from tests.support.stack import Stack
from tests.support.verifiers import MARKS, RECEIPTS, is_refuted, javascript
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World

pytestmark = pytest.mark.settings(show_odds=True, merkle_log="promo.example")


async def played(world: World, game_id: str, **more: Any) -> str:
    """The path of the play's receipt."""
    return f"/plays/{(await world.round(game_id, **more)).data['play_id']}/receipt"


async def read(world: World, path: str) -> dict[str, Any]:
    return dict((await world.stack.consumer("GET", path, player="ann")).data)


async def plays(world: World) -> list[str]:
    """One per reward handler and rule for unavailable prizes."""
    mug, gone, spare = await world.prize(total=99), await world.prize(total=1), await world.prize()
    await world.round(await world.wheel(gone))
    odds = [{"prize_id": gone, "probability": 0.9999}, {"prize_id": mug, "probability": 0.0001}]
    tiers = {"tiers": [{"min": 0, "max": 9, "prize_group": "a"}], "prize_groups": {"a": odds}}
    drops = [{"type": one, "prize_id": one, "frequency": 1, "max_catchable": 3} for one in (mug, gone)]
    gifts = {"drops": drops, "total_items": 9, "interval_ms": 1}
    redraw, fallback = {"on_unavailable": "redraw"}, {"on_unavailable": "fallback", "fallback_prize_id": spare}
    caught = {"caught_items": [f"item_{nth}" for nth in range(9)]}
    moments = {"prizes": [{"prize_id": gone}, {"prize_id": mug}]}
    return [
        await played(world, await world.game(WHEEL, {"prizes": odds})),
        await played(world, await world.game(WHEEL, {"prizes": odds}, **redraw)),
        await played(world, await world.game(WHEEL, {"prizes": odds}, **fallback)),
        await played(world, await world.game(COLLECTION, COINS), client_seed='ü"{:'),
        await played(world, await world.game(EGGS, tiers, **redraw), payload={"score": 7, "duration_ms": 9}),
        await played(world, await world.game(EGGS, tiers), payload={"score": 10, "duration_ms": 9}),
        await played(world, await world.game(GIFTS, gifts, **fallback), payload=caught),
        await played(world, await world.game({**WHEEL, "reward_handler": "moments"}, moments)),
    ]


def changed(whole: Any) -> Iterator[tuple[str, Any]]:
    """(name, copy) for each value in the receipt, with that value changed."""
    for path in list(_paths(whole)):
        other = copy.deepcopy(whole)
        *way, last = path
        holder = other
        for step in way:
            holder = holder[step]
        value = holder[last]
        if isinstance(value, bool | int | float):
            holder[last] = not value if isinstance(value, bool) else value + 1
        elif isinstance(value, str):
            holder[last] = f"{value[:-1]}{'0' if value[-1:] == '1' else '1'}"
        else:
            holder[last] = {"x": 1} if isinstance(value, dict) else [copy.deepcopy(other["rewards"] or [{}])[0]]
        yield ".".join(map(str, path)), other


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if item is None:
            continue
        if isinstance(item, dict | list) and item:
            yield from ((key, *rest) for rest in _paths(item))
        else:
            yield (key,)


def python(path: Path, key: str) -> list[str]:
    try:
        receipt = read_receipt(path.read_bytes())
        if receipt is None:
            return ["error  not the receipt of a play"]
        return [MARKS[ok] + text for text, ok in verify(receipt, key=VerifierKey.parse(key) if key else None)]
    except ValueError as error:
        return [f"error  {error}"]


async def test_receipt_is_verified_and_each_change_is_noticed(world: World, tmp_path: Path) -> None:
    """By both verifiers, with the same findings, within the log and without. What no hash fixes is stated as such."""
    paths, files = await plays(world), dict[str, Path]()
    assert [(await read(world, path))["log"]["pending"] for path in paths] == [True] * len(paths)

    async def is_logged() -> bool:
        await append(world.stack.engine, world.stack.tenant_id)
        return not (await read(world, paths[-1]))["log"]["pending"]

    await until(is_logged)
    (key,) = (await world.stack.admin("GET", "/admin/log")).data["keys"]
    signer = SigningKey(key.partition("+")[0], world.stack.engine.keyring.server[0].secret)
    for nth, path in enumerate(paths):
        receipt = await read(world, path)
        for kind, whole in (("logged", receipt), ("alone", {**receipt, "log": None})):
            pending = {**whole, "log": {"pending": True}}
            without = [("no_log", {**whole, "log": None}), ("late", {**pending, "played_at": 0})]
            without.append(("future", {**pending, "played_at": 4_102_444_800}))
            other = read_checkpoint(receipt["log"]["checkpoint"])._replace(origin="other")
            log = {**receipt["log"], "checkpoint": sign_checkpoint(other, [signer])}
            without.append(("origin", {**receipt, "log": log}))
            for name, one in [("", whole), *changed(whole), *without * (kind == "logged")]:
                title = f"{nth} {kind} {name}"
                files[title] = tmp_path / f"{title}.json"
                files[title].write_text(json.dumps(one))
    ours, theirs = list[list[str]](), list[list[str]]()
    files = dict(sorted(files.items(), key=lambda file: " alone " in file[0]))
    for keyed, of in ((key, " logged "), ("", " alone ")):
        paths_of = [path for title, path in files.items() if of in title]
        ours += [python(path, keyed) for path in paths_of]
        theirs += javascript(RECEIPTS, paths_of, keyed)
    assert [name for name, one, other in zip(files, ours, theirs, strict=True) if not agree(one, other)] == []
    assert [name for name, found in zip(files, ours, strict=True) if not is_right(name, found)] == []


async def test_receipt_prints_no_lines_of_its_own(world: World, tmp_path: Path) -> None:
    receipt, file = await read(world, await played(world, await world.wheel())), tmp_path / "forged.json"
    file.write_text(json.dumps({**receipt, "x\nok     forged\x1b[2A": 1}))
    ours = (await Operator(world.stack, tmp_path)("verify", str(file))).out
    lines = [*ours.splitlines(), *javascript(RECEIPTS, [file, file])[0]]
    assert "\x1b" not in "".join(lines) and [line for line in lines if line.startswith("ok     forged")] == []


async def test_receipt_is_only_for_its_player_and_staff(world: World, module_stack: Stack) -> None:
    path = await played(world, await world.wheel())
    assert (await module_stack.consumer("GET", path, player="bob")).reason == "UNKNOWN_PLAY"
    assert (await module_stack.consumer("GET", path)).reason == "TOKEN_MISSING"
    own = await module_stack.consumer("GET", path, player="ann")
    assert own.data == (await module_stack.admin("GET", f"/admin{path}")).data


def is_right(name: str, found: list[str]) -> bool:
    """Whether a change is refuted, or stated as not covered. The whole receipt is not refuted."""
    if name.endswith(" "):
        return not is_refuted(found)
    (value,) = re.findall(r"\w+$", name)
    return is_refuted(found) or any(line.startswith("open") and value in re.findall(r"\w+", line) for line in found)


def agree(one: list[str], other: list[str]) -> bool:
    """Whether both say the same. The program in JavaScript does not decide games with a drop plan."""
    if any("not decided again here" in line for line in other):
        return True
    if "error" in (one[0][:5], other[0][:5]) and not any("wrong type" in line for line in [*one, *other]):
        return is_refuted(one) and is_refuted(other)
    return one == other
