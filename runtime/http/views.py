"""What the edges show of Core's replies: flatter, with int64 as numbers (spec.md, "Surfaces").

A reply that wraps one thing is shown as that thing; a collection as `{items, pagination}`; a prize has its
`prize_id` beside the rest. The few that are more than that are below, by their operation.
"""

from __future__ import annotations

from typing import Any, Final

from runtime import messages as m
from runtime.http.codec import View, view
from runtime.operations import Operation
from runtime.schema import Kind, fields_of


def edge_view(operation: Operation) -> View:
    """The function that makes the edges' `data` of an operation's reply."""
    if operation.name in _BY_OPERATION:
        return _BY_OPERATION[operation.name]
    fields = fields_of(operation.reply)
    rows = list(fields.values())
    if len(rows) == 1 and rows[0].kind is Kind.MESSAGE and not rows[0].repeated:
        return _unwrapped(rows[0].name, rows[0].type)
    if "items" in fields and fields["items"].type is m.Prize:
        return _prizes
    return view(operation.reply, "number")


def _unwrapped(name: str, message: type[Any]) -> View:
    show = _prize if message is m.Prize else view(message, "number")

    def unwrapped(reply: Any) -> dict[str, Any]:
        return show(getattr(reply, name))

    return unwrapped


_show_prize: Final = view(m.Prize, "number")
_show_pagination: Final = view(m.Pagination, "number")
_show_render: Final = view(m.Render, "number")
_show_campaign: Final = view(m.Campaign, "number")
_show_quest: Final = view(m.Quest, "number")
_show_leaderboard: Final = view(m.Leaderboard, "number")
_show_standing: Final = view(m.Standing, "number")
_show_start: Final = view(m.StartReply, "number")
_show_rankings: Final = view(m.ListRankingsReply, "number")


def _prize(prize: m.Prize) -> dict[str, Any]:
    return {"prize_id": prize.id, **_show_prize(prize)}


def _prizes(reply: m.ListPrizesReply) -> dict[str, Any]:
    return {
        "items": [_prize(prize) for prize in reply.items],
        "pagination": _show_pagination(reply.pagination or m.Pagination()),
    }


def _public_campaign(reply: m.PublicCampaignReply) -> dict[str, Any]:
    return {
        **_show_campaign(reply.campaign or m.Campaign()),
        "games": [_without(_show_render(game), "ui") for game in reply.games],
        "quests": [_show_quest(quest) for quest in reply.quests],
    }


def _finalized(reply: m.FinalizeLeaderboardReply) -> dict[str, Any]:
    return {
        **_show_leaderboard(reply.leaderboard or m.Leaderboard()),
        "standings": [_show_standing(standing) for standing in reply.standings],
    }


def _started(reply: m.StartReply) -> dict[str, Any]:
    """Without the guest's id, which its token says; without a plan where the game has none."""
    shown = _without(_show_start(reply), "guest_player_id")
    return shown if reply.drop_plan else _without(shown, "drop_plan")


def _rankings(reply: m.ListRankingsReply) -> dict[str, Any]:
    shown = _show_rankings(reply)
    return shown if reply.me is not None else _without(shown, "me")


def _without(shown: dict[str, Any], name: str) -> dict[str, Any]:
    del shown[name]
    return shown


_BY_OPERATION: Final[dict[str, View]] = {
    "GetPublicCampaign": _public_campaign,
    "FinalizeLeaderboard": _finalized,
    "Start": _started,
    "ListRankings": _rankings,
}
