"""Quests: what a player does, here or elsewhere, and gets turns for."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.quests.completion import complete_quest, list_quest_progress, list_turns
from runtime.operations.quests.events import ROWS as EVENTS
from runtime.operations.quests.quest_admin import create_quest, delete_quest, get_quest, list_quests, update_quest
from runtime.operations.row import DESIGNERS, STAFF, Access, Consumer, Operation, RoutePolicy

ROWS: Final = (
    Operation(
        "CreateQuest",
        "POST /quests",
        run=create_quest,
        resource="quest",
        admin=DESIGNERS,
        stales=True,
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={
            "campaign_id": samples.CAMPAIGN,
            "name": "Visit the stall",
            "description": "By the fountain",
            "type": "QUEST_TYPE_DAILY",
            "turns": 3,
            "status": "QUEST_STATUS_ACTIVE",
            "start_date": samples.EARLIER,
            "condition": {"kind": "QUEST_CONDITION_KIND_PLAYS", "count": 3},
        },
    ),
    Operation("GetQuest", "GET /quests/{id}", run=get_quest, admin=STAFF),
    Operation("ListQuests", "GET /quests", run=list_quests, admin=STAFF),
    Operation(
        "UpdateQuest",
        "PUT /quests/{id}",
        run=update_quest,
        resource="quest",
        admin=DESIGNERS,
        stales=True,
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={"turns": 5},
    ),
    Operation("DeleteQuest", "DELETE /quests/{id}", run=delete_quest, admin=DESIGNERS, stales=True),
    Operation(
        "CompleteQuest",
        "POST /quests/{id}/complete",
        run=complete_quest,
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        refusals=(
            "ALREADY_COMPLETED",
            "CONDITION_NOT_MET",
            "QUEST_CLOSED",
            "CAMPAIGN_CLOSED",
            "PLAYER_MERGED",
            "UNKNOWN_TENANT",
        ),
        example={},
    ),
    Operation("ListTurns", "GET /players/me/turns", run=list_turns, consumer=Consumer(Access.PLAYER)),
    Operation("ListQuestProgress", "GET /players/me/quests", run=list_quest_progress, consumer=Consumer(Access.PLAYER)),
    *EVENTS,
)
