"""Quests: tasks, here or elsewhere, that grant a player turns."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.quests.completion import complete_quest, list_quest_progress, list_turns
from runtime.operations.quests.events import ROWS as EVENTS
from runtime.operations.quests.quest_admin import create_quest, delete_quest, get_quest, list_quests, update_quest
from runtime.operations.quests.referrals import ROWS as REFERRALS
from runtime.operations.row import DESIGNERS, STAFF, Access, Command, Consumer, Operation, RoutePolicy

ROWS: Final = (
    Operation(
        "CreateQuest",
        "POST /quests",
        run=create_quest,
        resource="quest",
        admin=DESIGNERS,
        invalidates_cache=True,
        confidential=True,
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
        command=Command(
            "quests create FILE",
            "Create a quest from a file. If it takes events, its secret is printed once.",
            outcome="{id} {name}\n{secret}",
        ),
    ),
    Operation(
        "GetQuest",
        "GET /quests/{id}",
        run=get_quest,
        admin=STAFF,
        command=Command(
            "quests show QUEST",
            "Show a quest.",
        ),
    ),
    Operation(
        "ListQuests",
        "GET /quests",
        run=list_quests,
        admin=STAFF,
        command=Command(
            "quests list --status --campaign --type --q",
            "List quests, newest first.",
            help={
                "status": "Only quests with this status: draft, active, archived. Default: all but archived.",
                "type": "Only quests of this type: one_time, daily, weekly.",
            },
            columns="id, quest=name, type, status, takes={condition:condition}, turns",
        ),
    ),
    Operation(
        "UpdateQuest",
        "PUT /quests/{id}",
        run=update_quest,
        resource="quest",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("UNKNOWN_CAMPAIGN", "HAS_HISTORY", "APPROVAL_NEEDED"),
        example={"turns": 5},
        command=Command(
            "quests update QUEST FILE",
            "Update a quest with the fields in a file; other fields are unchanged. If it starts to take "
            "events, its new secret is printed once.",
            help={"quest": "The quest's id."},
            outcome="{id} {name}\n{secret}",
        ),
    ),
    Operation(
        "DeleteQuest",
        "DELETE /quests/{id}",
        run=delete_quest,
        admin=DESIGNERS,
        invalidates_cache=True,
        command=Command(
            "quests remove QUEST",
            "Remove a quest, or archive it if it was completed.",
            help={"quest": "The quest's id."},
            confirm="Remove {quest}? It can no longer be completed.",
            outcome="{quest} is {archived:removed}",
        ),
    ),
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
    *REFERRALS,
)
