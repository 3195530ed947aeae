"""What game.proto's comments say of its fields: made by ops/generate.py."""

# A name -> what it means where a field has no comment.
NAMES: dict[str, str] = {
    "access": "Whether only players may play, or guests too.",
    "achieved_at": "When the score was reached; the earlier one ranks first.",
    "actor": "Who did it: the subject of the token; empty: a caller of Core.",
    "address": "The client's address.",
    "all_free": "All codes that are free, in place of `ids`.",
    "amount": "How much, in whole units; negative: taken away.",
    "attempts": "How often it was tried.",
    "available_at": "When it can be completed again; 0: never.",
    "avatar_url": "An http or https address of the player's picture; empty: none.",
    "awarded": "How many units were awarded.",
    "balance": "The balance now.",
    "balance_after": "The balance after the movement.",
    "balances": "The balances that were moved, as they are now.",
    "by_day": "One row for each day.",
    "campaign": "The campaign.",
    "campaign_id": "The campaign's id.",
    "challenge_id": "The login challenge's id.",
    "channel": "How it is delivered: none, voucher_code, webhook, workflow, manual or one of a plugin.",
    "claim_fields": "What the winner is asked at the claim.",
    "claimed": "How many were claimed.",
    "claimed_at": "When it was claimed; 0: it was not.",
    "client_seed": "A text of the player's own that the draw also depends on; empty: none.",
    "completed_at": "When it was completed.",
    "contact": "A phone number or an e-mail address.",
    "contacts": "The player's contacts.",
    "created_at": "When it was made.",
    "currency": "The name of the currency: `points`, an item of a collection, or an ISO 4217 code where it is money.",
    "cursor": "The `next_cursor` of the page before; empty: the first page.",
    "day": "The local day in the campaign's time zone, as YYYY-MM-DD.",
    "description": "A text for players.",
    "display_name": "The name that other players see.",
    "draws": "How many draws were made.",
    "drop_plan": "What falls and when, in a game that drops things.",
    "duration_ms": "How long the receiver took, in milliseconds.",
    "end_date": "When it ends; 0: it does not.",
    "entry": "The movement.",
    "error": "What went wrong; empty: nothing.",
    "event_id": "The event's id.",
    "expires_at": "When it ends; 0: it does not.",
    "fulfilled": "How many were fulfilled.",
    "fulfilled_at": "When it was fulfilled; 0: it was not.",
    "game": "The game.",
    "game_id": "The game's id.",
    "id": "The resource's id, given by the service.",
    "idempotency_key": "Sent again with the same request, it gets the first reply; nothing is done twice.",
    "ids": "The codes' ids.",
    "image_url": "An https address of a picture; empty: none.",
    "integration": "The integration.",
    "integration_id": "The integration's id.",
    "items": "The page's items.",
    "leaderboard": "The leaderboard.",
    "limit": "How many items a page holds: 1 to 100, 20 where it is left out.",
    "locale": "The player's language, as a BCP 47 tag such as en or pt-BR.",
    "login_id": "The login's id.",
    "merchant": "The merchant.",
    "merchant_id": "The merchant's id; empty: the tenant's own.",
    "message": "A sentence for people.",
    "metadata": "What the page shows of the draw; its fields depend on the reward handler.",
    "milestone_id": "The rung's id.",
    "milestones": "What balances unlock.",
    "name": "The name that people read.",
    "network": "The client's network, as a hash.",
    "next_attempt_at": "When it is tried again; 0: it is not.",
    "odds": "Draws compared with the declared odds.",
    "on_unavailable": "What happens where a drawn prize is out of stock or capped.",
    "pagination": "Where the next page begins.",
    "play_id": "The play's id.",
    "player": "The player.",
    "player_id": "The player's id.",
    "players": "How many different players.",
    "plays": "How many plays.",
    "prize": "The prize.",
    "prize_id": "The prize's id.",
    "prizes": "The prizes.",
    "q": "Part of a name, in either case; empty: all.",
    "quantity": "How many units.",
    "quest": "The quest.",
    "quest_id": "The quest's id.",
    "rank": "The rank, from 1.",
    "reason": "Why, for people and the audit log.",
    "reference_id": "What it refers to: a play, a reward, a quest, or an id of the caller's own.",
    "remaining": "How many units are left.",
    "revision": "The number of the revision; each update makes the next one.",
    "revision_hash": "SHA-256 of the terms that the play is decided by, in hex.",
    "reward": "The reward.",
    "reward_id": "The reward's id.",
    "rewards": "The rewards won.",
    "roles": "The roles of the token.",
    "rules": "Limits of plays.",
    "scope": "The tenant that the request is about, and the merchant in whose name it is made.",
    "scope_key": "What the balance belongs to: the id of a campaign, of a merchant or of the tenant.",
    "score": "The score.",
    "seed": "The seed in hex: with the client seed it gives the draw, so anyone can check it.",
    "seed_hash": "SHA-256 of the seed, in hex; told before the play.",
    "session_id": "The session: it is played once, by the player that started it.",
    "sign_in_id": "The sign-in's id.",
    "start_date": "When it begins; 0: at once.",
    "starts": "How many sessions were started.",
    "state": "Whether it is free, assigned or withdrawn.",
    "status": "Its state.",
    "subject": "The subject of the token.",
    "subject_id": "The id of the resource that it was done to.",
    "subject_type": "The kind of resource that it was done to.",
    "task": "The fulfillment task.",
    "tenant": "The tenant.",
    "tenant_id": "The tenant's id.",
    "threshold": "The balance at which the rung is reached.",
    "timezone": "An IANA time zone such as Europe/Berlin: its days begin at midnight there.",
    "token": "The API token.",
    "total": "How many units there are in all; 0: unlimited.",
    "turns": "How many turns.",
    "type": "Its type: a name of your own, such as voucher, points or spin_wheel.",
    "ui": "How the game looks. Any JSON object is stored and returned as sent; the widget reads the parts that it knows.",
    "until": "Before then.",
    "update_mask": "The names of the fields to set; empty: every field that is sent.",
    "updated_at": "When it was last changed.",
    "value": "What one unit is worth; of type points: how many.",
    "wins": "How many plays won something.",
    "withdrawn": "How many were withdrawn.",
    "won_at": "When it was won."
}

FIELDS: dict[str, dict[str, str]] = {
    "Pagination": {
        "next_cursor": "Sent as `cursor`, it gets the next page; empty on the last one.",
        "has_more": "Whether there is a next page."
    },
    "Budget": {
        "amount": "In units of the currency; 0: no budget.",
        "currency": "As ISO 4217 has it, such as EUR. Prizes of another currency, or of none, are not counted.",
        "used": "The value of what was given and not given back, as it was counted at used_at; 0: not yet.",
        "used_at": "When `used` was counted."
    },
    "Campaign": {
        "settings": "Free-form JSON for the pages that show the campaign; the service does not read it.",
        "redeem_until": "Until when milestones may be redeemed after the campaign has ended; 0: no longer than the campaign.",
        "origins": "Pages of these origins may show and play the campaign's games, beside those of the tenant's.",
        "revision": "Counts its updates. An update that sends it changes that revision or none.",
        "budget": "What its prizes may cost in all; left out: no budget."
    },
    "LaunchItem": {
        "level": "How serious it is.",
        "field": "Where it is put right: a field of the campaign (end_date), of what it names (prizes/prize_1/stock), or a setting."
    },
    "DuplicateCampaignRequest": {
        "name": "Left out: the original's, with \" (copy)\".",
        "start_date": "The copy's; all dates in it move to that day. 0: the original's, moved to the next such hour if it is past.",
        "end_date": "The copy's. 0: the original's, moved as its start is."
    },
    "DuplicateCampaignReply": {
        "shift_days": "By how many days, in the campaign's zone, the dates of the campaign, its quests and leaderboards were moved, but for those that the request gives. A date that is not set stays so."
    },
    "ImportCampaignRequest": {
        "file": "The file, as `tombola campaigns export` writes it.",
        "into": "The id of the campaign to make so; empty: a new one."
    },
    "ImportCampaignReply": {
        "created": "How many resources were made.",
        "changed": "How many resources were changed.",
        "kept": "How many resources were as the file has them."
    },
    "SaveWarning": {
        "field": "Its path, such as ui.theme.primary."
    },
    "CampaignReply": {
        "warnings": "Of the parts of `settings` that are written as a game's `ui` is. Where it was made or changed."
    },
    "CampaignAnalytics": {
        "rewards_by_status": "How many rewards are in each state, by its stored name."
    },
    "CampaignAnalyticsReply": {
        "analytics": "The figures."
    },
    "GetCampaignFiguresRequest": {
        "from_day": "The first day, as YYYY-MM-DD; empty: the campaign's first.",
        "to_day": "The last day, as YYYY-MM-DD; empty: today."
    },
    "HourFigures": {
        "hour": "The hour of the local day, 0 to 23."
    },
    "DayFigures": {
        "players": "Of the campaign, whatever game is asked for."
    },
    "Funnel": {
        "rewards": "How many rewards were won."
    },
    "PrizeCost": {
        "units": "How many units were given.",
        "cost": "Their value."
    },
    "Cost": {
        "amount": "How much, in units of the currency."
    },
    "OddsFigures": {
        "drawn": "The prize's id or the item that was drawn; empty: a loss.",
        "declared": "The probability that the game declares.",
        "expected": "How often it should have been drawn.",
        "low": "The least count that chance explains, 999 times of 1,000.",
        "high": "The greatest count that chance explains, 999 times of 1,000.",
        "by_chance": "Whether the count is between `low` and `high`."
    },
    "CampaignFigures": {
        "counted_until": "Up to when plays are counted.",
        "players": "Different ones, and those of them that played on more than one day; of a game since its beginning, where returning ones played more than once.",
        "returning_players": "Players who played on several days; of one game, more than once.",
        "funnel": "How many starts led to plays, wins, and claimed and fulfilled rewards.",
        "cost": "Where all of it is of one currency, else 0: amounts of several are in `costs` alone.",
        "by_hour": "One row for each hour of the day.",
        "games": "The games.",
        "costs": "Each currency's that there is something of."
    },
    "CampaignFiguresReply": {
        "figures": "The figures."
    },
    "PublicCampaignReply": {
        "games": "Its active games, as RenderGame has them, but without `ui`.",
        "quests": "The campaign's active quests.",
        "leaderboards": "Those that are not archived, newest first."
    },
    "GameRules": {
        "max_plays_per_user": "How often one player may play in all; 0: no limit.",
        "max_plays_per_day": "How many plays a day are free, or with `requires_turn` allowed; 0: no limit.",
        "requires_turn": "Whether every play spends a turn.",
        "admits_guests": "A game with player access refuses guests (LOGIN_REQUIRED), unless it admits them.",
        "verify_timing": "Compares the duration of a score, and when caught items fell, with the time since the start that the player's other plays have left. For clients that play in real time."
    },
    "Milestones": {
        "mode": "Whether a rung is unlocked by the balance, or spends it.",
        "auto_grant": "Whether a play that reaches a rung grants it at once; otherwise the player redeems it.",
        "rungs": "The rungs."
    },
    "Game": {
        "seed_generator": "The registered generator of what a start shows: none or drop_sequence.",
        "reward_handler": "The registered handler that draws: probability, score_to_tier, collect_items or lucky_item.",
        "validator": "The registered check of what a play sends: basic or drop_plan.",
        "handler_config": "What may be won, and how likely it is; its shape depends on `reward_handler`.",
        "wallet_scope": "What the game's balances belong to: the campaign, its merchant or the tenant.",
        "fallback_prize_id": "The prize that is given with ON_UNAVAILABLE_FALLBACK."
    },
    "DeleteReply": {
        "archived": "Whether it was archived, because it has a history, and not removed."
    },
    "GameReply": {
        "warnings": "Of `ui`. Where it was made or changed."
    },
    "ListGameRevisionsRequest": {
        "revision": "This one alone; 0: all."
    },
    "GameRevision": {
        "made_at": "When the revision was made.",
        "made_by": "Who made it, as the audit log has it; empty where it says nothing."
    },
    "RenderPrize": {
        "available": "Whether it can be won now.",
        "terms": "What its winners agree to.",
        "needs_claim": "Whether its winner is to claim it, and whether a code is what is given: what a page offers a winner next.",
        "gives_code": "Whether its winner gets a code."
    },
    "Render": {
        "reward_handler": "How a page chooses what to draw for a type that it does not know.",
        "scope_key": "Where the player's balances of this game are: `GET /wallet?scope_key=`.",
        "offers": "What its campaign has for who plays it, of quests and leaderboards.",
        "reason": "NOT_STARTED, PAUSED or ENDED where nobody may play it now, SOLD_OUT where no prize is left to be won; else empty.",
        "starts_at": "The campaign's dates and the time zone that they are shown in; 0: none.",
        "ends_at": "When the campaign ends; 0: it does not."
    },
    "RenderReply": {
        "render": "What a page needs to show the game."
    },
    "StartRequest": {
        "player_id": "Empty on a game with public access: a guest is made."
    },
    "PlannedDrop": {
        "at_ms": "When it falls, in milliseconds since the start."
    },
    "StartReply": {
        "guest_player_id": "The guest that was made, where the request named no player; an edge gives it a token.",
        "commitment": "SHA-256 of seed_hash, revision_hash and session_id, with colons between, in hex.",
        "revision_hash": "SHA-256 of what decides, in hex: the session is played by just that, or not at all. GetRevision has it."
    },
    "NextSession": {
        "commitment": "SHA-256 of seed_hash, revision_hash and session_id, with colons between, in hex."
    },
    "PlayRequest": {
        "player_id": "May be left out where the session names the player (a guest's).",
        "payload": "What the player did: nothing on a wheel or card; `score` and `duration_ms`, or `caught_items`, in a catcher.",
        "next": "Asks for the session of a next play as well."
    },
    "WonReward": {
        "reward_id": "Empty for wallet items, which make no reward record."
    },
    "PlayReply": {
        "milestones_granted": "The rungs that this play granted.",
        "next": "Where it was asked for, and a start would not be refused."
    },
    "EligibilityReply": {
        "can_play": "Whether a start would be accepted now.",
        "reason": "Why not: the reason that a start would be refused for, but of a closed game its state, NOT_STARTED, PAUSED or ENDED. Beside can_play: SOLD_OUT, where no prize is left to be won, or empty.",
        "remaining_turns": "How many turns the player has; -1: no limit.",
        "free_plays_remaining": "How many plays are left that spend no turn; -1: no limit.",
        "resets_at": "When free plays are counted anew; 0: never.",
        "starts_at": "When the campaign starts; 0 where `reason` is not NOT_STARTED."
    },
    "PlayRecord": {
        "played_at": "When it was played.",
        "revision_hash": "What it was promised by, as its start answered it.",
        "unavailable": "The prizes that the decision could not have, or not as many of as it asked for: out of stock or codes, or at a cap."
    },
    "ReplayPlayReply": {
        "play": "The play as it was recorded.",
        "payload": "What the player did; its shape depends on the game.",
        "replayed": "The outcome that the replay gives.",
        "matches": "Whether both are the same.",
        "commitment": "As its start must have answered it.",
        "terms": "As of a Revision."
    },
    "GetRevisionRequest": {
        "id": "A revision_hash."
    },
    "Revision": {
        "terms": "JSON. The SHA-256 of its UTF-8 bytes, in hex, is revision_hash: hash it as it stands, before it is read.",
        "promised_at": "When it was first promised."
    },
    "MakeTestPlaysRequest": {
        "times": "How many, at most 1000; 0: one.",
        "payload": "Of each of them. Left out in a game that drops things, everything that falls is caught.",
        "seed": "64 hex digits that one play is drawn from, such as a start answered; else a new one each.",
        "start": "Decides and keeps nothing: answers one play's seed and drop plan, as a start does."
    },
    "TestPlay": {
        "test": "Always true.",
        "payload": "Where it is the only one."
    },
    "TestFrequency": {
        "outcome": "\"prize\", \"item\" (of a wallet) or \"nothing\".",
        "name": "Of the prize or item.",
        "slot_index": "The segment or slot on which it was shown; -1: none.",
        "count": "How often it came out.",
        "share": "count over the plays.",
        "declared": "The share that its configuration says, while everything is there; -1: it says none.",
        "quantity": "Units in all."
    },
    "TestRun": {
        "test": "Always true.",
        "times": "How many plays were made.",
        "frequencies": "How often each outcome came out.",
        "plays": "The first of them.",
        "made_by": "Who made the test plays."
    },
    "TestRunReply": {
        "run": "The test plays, summed up."
    },
    "PrizeConstraints": {
        "max_per_user": "How many one player may win in all; 0: no limit.",
        "max_per_day": "How many all players together may win a day; 0: no limit."
    },
    "PrizeFulfillment": {
        "redemption_mode": "When the delivery is due: at the win, at the claim, or when staff fulfil it.",
        "config": "What the channel needs: `url`, `secret` and `headers` of webhook and workflow."
    },
    "Prize": {
        "stock": "How many units there are, and are left; left out: unlimited.",
        "constraints": "Limits of how often it is won.",
        "fulfillment": "When and how it is delivered.",
        "expires_after_days": "How many days after the win an unclaimed reward expires; 0: never.",
        "description": "What players read of it, beside its name.",
        "image_url": "An https address; empty: none.",
        "terms": "What its winners agree to.",
        "currency": "Of the value, as ISO 4217 has it, such as EUR; empty: not said.",
        "low_stock_at": "It runs low where no more than this is left: of its stock, or of its free codes. 0: it is not watched.",
        "low": "Whether it runs low.",
        "claim_fields": "What its winner is asked when it is claimed; only where redemption_mode has it claimed."
    },
    "ClaimField": {
        "key": "What its answer goes by: a letter, then letters, digits and _; each once.",
        "label": "What the player reads.",
        "kind": "What kind of answer it takes.",
        "required": "Whether a claim without it is refused.",
        "options": "Of a choice: 2 to 50."
    },
    "ClaimAnswer": {
        "key": "The claim field's key.",
        "label": "What the winner read.",
        "value": "What the winner answered."
    },
    "PrizeSummary": {
        "codes_available": "How many codes are free.",
        "low": "Whether no more is left of it than its low_stock_at."
    },
    "MoveStockRequest": {
        "change": "How many more, or fewer, there are; of a prize whose stock is counted, and stays so.",
        "unlimited": "Whether the stock becomes unlimited."
    },
    "StockMove": {
        "id": "The how manieth of its prize's.",
        "reason": "Empty: the prize was edited.",
        "total_before": "`total` before the move.",
        "total_after": "`total` after the move.",
        "remaining_before": "`remaining` before the move.",
        "remaining_after": "`remaining` after the move."
    },
    "StockMoveReply": {
        "move": "The move."
    },
    "ImportCodesRequest": {
        "codes": "The codes to add.",
        "lines": "The line of each code, for the errors; left out: counted from 1.",
        "more": "Another part follows: `available` is not counted.",
        "part": "Which part of an import this is, from 0: under one key each part is added once.",
        "expires_at": "When the codes expire, in unix seconds; 0: never. One that is expired is not given out any more.",
        "expiries": "The same of each code, 0: as the others; left out: all alike."
    },
    "CodeError": {
        "line": "The number of the line, from 1.",
        "reason": "Why the line was not added."
    },
    "ImportCodesReply": {
        "added": "How many codes were added.",
        "duplicates": "How many were in the pool, or in the import, already.",
        "invalid": "How many lines cannot be codes.",
        "errors": "The first 100 lines that were not added, and why.",
        "available": "How many codes of the prize are free."
    },
    "VoucherCode": {
        "masked": "Of one that was won its last characters, as far as they give nothing away; else only dots.",
        "assigned_at": "When it was given to a winner; 0: it was not.",
        "withdrawn_at": "When it was withdrawn; 0: it was not.",
        "expires_at": "0: never."
    },
    "CodeTotals": {
        "free": "How many can be given out.",
        "assigned": "How many were given to winners.",
        "expired": "How many free ones have expired."
    },
    "ListCodesReply": {
        "totals": "Of the whole pool, whatever is listed of it."
    },
    "WithdrawCodesRequest": {
        "reason": "Why, for the audit log."
    },
    "WithdrawCodesReply": {
        "kept": "The codes that were won or withdrawn before.",
        "available": "Codes that are free still."
    },
    "ExpireCodesRequest": {
        "all_expired": "They can be won again.",
        "ending_at": "Of all those, the ones that end at this time alone (unix seconds; 0: whenever they do).",
        "expires_at": "When they end from now on, in unix seconds.",
        "never": "The codes do not expire any more.",
        "reason": "Why, for the audit log."
    },
    "ExpireCodesReply": {
        "changed": "How many end at another time than before.",
        "kept": "Those that were won or withdrawn, and stay as they are.",
        "available": "Codes that are free now."
    },
    "LedgerEntry": {
        "reason": "Why the balance was moved."
    },
    "MilestoneProgress": {
        "progress": "How far the player is, from 0 to 1.",
        "granted_at": "When it was granted; 0: it was not."
    },
    "RedeemReply": {
        "milestone": "The rung, as it is now."
    },
    "Reward": {
        "code": "Only to its owner, once delivered.",
        "code_error": "Why `code` is not shown though there is one: CODE_UNAVAILABLE. Empty else.",
        "prize": "What its prize says of itself now."
    },
    "PrizeContent": {
        "terms": "What its winners agree to."
    },
    "RewardRecord": {
        "answered": "Whether its winner answered what the claim asked; GetReward has the answers.",
        "channel": "How it is delivered: its delivery's channel, or its prize's where none is due yet."
    },
    "SearchRewardsRequest": {
        "contact": "The winner's, whole.",
        "code": "The code that it has, whole; for who may move rewards.",
        "won_from": "Won from then, until before then.",
        "won_until": "Won before then.",
        "reveal": "Whether it may be looked for by a code."
    },
    "GetRewardRequest": {
        "reveal": "Whether answers are shown whole."
    },
    "GetRewardReply": {
        "answers": "What its winner answered when claiming it, in the order of the fields then.",
        "delivery": "Left out where nothing has been due to be delivered."
    },
    "RewardDelivery": {
        "tried_at": "When that ended; 0: none has.",
        "request": "How the body begins that the receiver is sent, made of what is kept now: without the callback's token, and with answers where they are shown. Empty where nothing was sent.",
        "answer": "How the receiver's answer began, without secrets.",
        "earlier": "The attempts before that one, the oldest first: of the last 20."
    },
    "DeliveryAttempt": {
        "tried_at": "When it was tried.",
        "error": "Why it failed; empty: it did not.",
        "answer": "How the receiver's answer began, without secrets."
    },
    "ClaimRewardRequest": {
        "answers": "To the prize's claim_fields, by their keys: each a text."
    },
    "FulfillRewardRequest": {
        "note": "A note for the audit log."
    },
    "RevealCodeRequest": {
        "reason": "Why it is shown: kept in the audit log."
    },
    "RevealCodeReply": {
        "code": "The voucher code, as its winner is shown it."
    },
    "QuestCondition": {
        "kind": "What is counted.",
        "count": "How many of them complete the quest."
    },
    "Quest": {
        "type": "How often it can be completed.",
        "turns": "How many turns a completion grants.",
        "condition": "What must be done first; left out: the player's word is enough.",
        "secret": "By which the quest's events are signed: in the answer that makes it, and never again.",
        "secret_set": "Whether there is one."
    },
    "PublicQuest": {
        "condition": "What must be done first; left out: the player's word is enough."
    },
    "RotateQuestSecretRequest": {
        "end_previous": "Whether the previous secret stops working now."
    },
    "TellQuestEventRequest": {
        "event_id": "Of the teller's choosing: told again under the same one, it is the same event.",
        "email": "The player's e-mail address, in place of `player_id`.",
        "phone": "The player's phone number, in place of `player_id`."
    },
    "QuestEventReply": {
        "told_at": "When the event was first told."
    },
    "CompleteQuestReply": {
        "turns_granted": "How many turns were granted."
    },
    "QuestProgress": {
        "have": "How many are done.",
        "need": "How many are needed.",
        "completed": "Whether it is completed for this period."
    },
    "TurnBalance": {
        "completed_quests": "The campaign's quests that are completed for this period."
    },
    "Contact": {
        "type": "Phone or e-mail.",
        "value": "The phone number in E.164 form, or the e-mail address.",
        "verified": "Whether the player has proved it by a code."
    },
    "Player": {
        "attributes": "Free-form JSON of your own about the player.",
        "auth_method": "How the player was first known."
    },
    "SetPlayerStatusRequest": {
        "reason": "Why, for the audit log."
    },
    "ResolvePlayerRequest": {
        "guest_player_id": "A guest whose balances, rewards, plays and turns move to the player, once."
    },
    "ResolvePlayerReply": {
        "created": "Whether the player was made by this request.",
        "guest_merged": "Whether what the guest won is the player's now: not where the guest is suspended, or somebody else's."
    },
    "LinkContactRequest": {
        "challenge_id": "Whose code proved the contact: it is used up with this, or not at all."
    },
    "RankPrize": {
        "from_rank": "The first rank that wins the prize.",
        "to_rank": "The last rank that wins the prize."
    },
    "Leaderboard": {
        "metric": "What is counted.",
        "mode": "How a player's scores become one."
    },
    "ListRankingsRequest": {
        "player_id": "With a player, the reply's `me` is that player's own place."
    },
    "ListRankingsReply": {
        "me": "The asking player's own rank; null: none."
    },
    "Standing": {
        "reason": "Why there is no reward.",
        "contact": "A contact of a player without a display name, masked. In the standings that staff list alone."
    },
    "FinalizeLeaderboardReply": {
        "standings": "The final ranks and what each won."
    },
    "DisqualifyPlayerReply": {
        "leaderboard_id": "The leaderboard's id.",
        "disqualified_at": "When the player was disqualified."
    },
    "AdjustScoreRequest": {
        "delta": "What is added to the score; negative: taken away."
    },
    "RankingReply": {
        "ranking": "The player's rank."
    },
    "Integration": {
        "type": "Where it sends events.",
        "events": "The event types that it receives.",
        "config": "What the integration needs: `url`, `secret` and `headers` of webhook and workflow."
    },
    "ListIntegrationsReply": {
        "logs_only": "Types that nobody sends for: what they are told is logged, until a plugin registers a provider."
    },
    "EmitEventRequest": {
        "type": "The event's type.",
        "data": "The event's data."
    },
    "EmitEventReply": {
        "dispatched": "How many integrations matched and were attempted."
    },
    "IntegrationDelivery": {
        "event_type": "The event's type.",
        "delivered": "Whether the receiver accepted it.",
        "http_status": "The receiver's HTTP status; 0: it gave none.",
        "request": "How the body of the request began, and that of the answer, without secrets and signatures.",
        "answer": "The beginning of the receiver's answer."
    },
    "ResendDeliveryRequest": {
        "delivery_id": "The delivery's id."
    },
    "IntegrationDeliveryReply": {
        "delivery": "The delivery."
    },
    "Task": {
        "last_error": "Why the last attempt failed; empty: it did not.",
        "prize_name": "The prize's name when it was won."
    },
    "ListTasksRequest": {
        "contact": "The winner's, whole.",
        "since": "Made from then, until before then."
    },
    "CompleteTaskRequest": {
        "external_id": "The workflow's own id for what it did.",
        "callback_id": "The callback's webhook-id, which moves one task of the tenant, once. Empty: it is not known."
    },
    "VerifyCallbackRequest": {
        "webhook_id": "The header webhook-id.",
        "webhook_timestamp": "The header webhook-timestamp.",
        "webhook_signature": "The header webhook-signature.",
        "body": "The raw body, which was signed.",
        "token": "The token of the callback's URL."
    },
    "VerifyCallbackReply": {
        "verified": "Whether the signature is right."
    },
    "Tenant": {
        "origins": "Pages of these origins may call the consumer edge for the tenant and frame its pages: exact ones, or https://*.brand.example for every name below brand.example."
    },
    "ListOriginsReply": {
        "tenant": "Origins of pages that may show everything of the tenant.",
        "campaigns": "Origins of pages that may show a campaign."
    },
    "FindOriginRequest": {
        "origin": "The page's origin."
    },
    "FindOriginReply": {
        "known": "Whether some tenant or campaign names it."
    },
    "ListAuditEntriesRequest": {
        "action": "How the action begins: \"prize\", \"prize.import\".",
        "since": "Unix seconds; 0: ever. Before `until`, and not at it.",
        "q": "In who did what to what, the name of that, and the reason.",
        "player_id": "What was done to this player, or to the player's rewards, deliveries, scores and wallet."
    },
    "AuditEntry": {
        "action": "What was done: the resource and the verb, such as game.update.",
        "before": "The resource before; empty where it is new.",
        "after": "The resource afterwards.",
        "trace_id": "The trace id of the request."
    },
    "NoteRefusalRequest": {
        "route": "The verb and path that were refused.",
        "needed": "The roles that would have opened it."
    },
    "NotedReply": {
        "noted": "Whether it was noted."
    },
    "ReadExportRequest": {
        "since": "Of what happened from then on, and before then; 0: not bounded.",
        "after": "The cursor of the last line that was read.",
        "reveal": "Whether contacts are shown whole.",
        "begins": "Whether a download begins with this part: that it was asked for is in the audit log."
    },
    "ReadExportReply": {
        "head": "The header line.",
        "lines": "Lines of CSV.",
        "rows": "How many rows there are.",
        "after": "The cursor of the last of these lines."
    },
    "GetLiveRequest": {
        "stock": "How many prizes to list at most."
    },
    "StockRunway": {
        "a_day": "How many were awarded in the last 24 hours.",
        "empty_at": "When the stock is used up at that rate; 0: not soon."
    },
    "FailingIntegration": {
        "waiting": "How many events wait to be sent again."
    },
    "UsedBudget": {
        "amount": "The budget, in units of the currency.",
        "used": "What was used of it, in units of the currency."
    },
    "LowPrize": {
        "low_stock_at": "The level at which it counts as low."
    },
    "GetLiveReply": {
        "at": "When the figures were read.",
        "deliveries_waiting": "How many deliveries wait.",
        "deliveries_dead": "How many deliveries failed for good.",
        "integrations": "The integrations that fail.",
        "cost_a_day": "The value of what was won in the last 24 hours, where it is of one currency.",
        "budgets": "The campaigns' budgets, and what is used of them.",
        "low_prizes": "The prizes that run low.",
        "costs_a_day": "The value of what was won in the last 24 hours, by currency."
    },
    "Revocation": {
        "kind": "What was revoked.",
        "subject": "The login's id, the player's, the sign-in's, staff's subject, or the API token's id.",
        "issued_until": "Tokens issued until then are refused; 0: every one.",
        "kept_until": "When the last of them has expired, so that nobody need remember it."
    },
    "ListRevocationsRequest": {
        "since": "From then on."
    },
    "ListRevocationsReply": {
        "revocations": "What was revoked.",
        "since": "What to ask for next: at once where `more`, else whenever it is wanted.",
        "more": "Whether there are more after these.",
        "login_token_seconds": "For how long what was revoked is remembered: no edge makes or takes a token of a longer life.",
        "guest_token_seconds": "How long a guest's token lives at most.",
        "token_seconds": "How long any other token lives at most.",
        "now_us": "The database's time, in microseconds since 1970: what edges judge tokens by. 0 but in the first of several replies."
    },
    "BeginLoginRequest": {
        "challenge_id": "Whose code proved who this is: it is used up with this, or not at all."
    },
    "TurnLoginRequest": {
        "generation": "That of the refresh token which is used; the next one's is one more.",
        "requester": "The address that it comes from, as a hash."
    },
    "LoginReply": {
        "ends_at": "When the player must log in again, however often the tokens are refreshed."
    },
    "EndLoginsRequest": {
        "everywhere": "Whether all of the player's logins end.",
        "address": "Whose rates it counts for, where it ends a guest, as hashes.",
        "issued_at": "When the token that was shown was issued: the edge's clock may be ahead of the database's."
    },
    "RevokeStaffRequest": {
        "issued_at": "Where it is the subject itself that ends them: when the token that it showed was issued."
    },
    "RevokeStaffReply": {
        "withdrawn": "How many of the person's open approvals were withdrawn.",
        "tokens": "How many of the person's API tokens still work."
    },
    "IssueChallengeRequest": {
        "contact_hash": "The contact, as a keyed hash.",
        "requester": "Who asks, as a hash of the address.",
        "code_hash": "The code, as a keyed hash.",
        "strong_code_hash": "Of a code too long to be guessed, which counts instead where too many were guessed wrong.",
        "login_id": "A login that the requester has had: where it was by this contact, the requester is no stranger."
    },
    "IssueChallengeReply": {
        "resend_at": "When another code may be sent.",
        "strong": "Whether the longer code is to be sent."
    },
    "AnswerChallengeRequest": {
        "code_hashes": "The code, as a hash under each key."
    },
    "Violation": {
        "check": "The check that they break, and what it says must hold.",
        "holds": "What must hold.",
        "subject_id": "What was looked at, and what of it.",
        "row_id": "The row that violates it.",
        "scope_key": "The campaign or merchant that it is of; empty: the tenant.",
        "expected": "What must be there.",
        "found": "What is there.",
        "first_seen_at": "When it was first found.",
        "last_seen_at": "When it was last found.",
        "gone_at": "Since when it is found no more; 0: it was there the last time that it was looked for.",
        "closed_at": "When somebody closed it; 0: nobody did.",
        "closed_by": "Who closed it."
    },
    "ListViolationsRequest": {
        "check": "The check that is violated."
    },
    "ViolationReply": {
        "violation": "The violation."
    },
    "PlayerRecord": {
        "auth_method": "How the player was first identified.",
        "merged_into": "Who this guest became by logging in; empty: nobody.",
        "erased_at": "When its personal data were removed; 0: never."
    },
    "PlayerCounts": {
        "rewards": "How many rewards the player won.",
        "sessions": "How many logins are open.",
        "last_played_at": "When the player last played; 0: never."
    },
    "SearchPlayersRequest": {
        "q": "An id, a part of a name, or a whole contact."
    },
    "InspectPlayerReply": {
        "counts": "Figures about the player."
    },
    "QuestCompletion": {
        "period": "The day, the week or `once`: each can be completed once.",
        "id": "Of this list alone."
    },
    "GrantTurnsRequest": {
        "reason": "Why, for the audit log."
    },
    "MergePlayerRequest": {
        "guest_id": "Whose things the player gets.",
        "preview": "Says what would move, and moves nothing."
    },
    "MergePlayerReply": {
        "guest_id": "The guest's id.",
        "merged": "Whether this request merged them.",
        "plays": "What the guest had.",
        "rewards": "How many rewards were moved."
    },
    "UnlinkContactRequest": {
        "contact_id": "The contact's id."
    },
    "SignOutPlayerReply": {
        "ended": "Logins that went on until now."
    },
    "ExportedItem": {
        "id": "Of this list alone.",
        "kind": "profile, contact, session, play, reward, delivery, balance, movement, turns, turn_movement, rung, quest, quest_event, standing, score or disqualification.",
        "data": "The record."
    },
    "ErasePlayerRequest": {
        "reason": "Why, for the audit log, which keeps it: who it was does not belong there."
    },
    "BulkRewardsRequest": {
        "act": "What is done with each reward.",
        "ids": "Rewards, each once.",
        "reason": "Why, for the audit log."
    },
    "BulkResult": {
        "ok": "Whether it was done.",
        "reason": "Why not; empty where it was done."
    },
    "BulkRewardsReply": {
        "results": "What became of each, in the order of `ids`."
    },
    "RotateSecretRequest": {
        "secret": "The new secret; empty: there is none any more."
    },
    "Approval": {
        "operation": "AdjustBalance, GrantTurns, UpdateGame or BulkRewards.",
        "subject_id": "The player or game that it is about; empty where it is about several things.",
        "before": "What it is about as it was when it was asked for, and as it would be.",
        "after": "The resource as it would be afterwards.",
        "merchant_id": "In whose name; empty: the tenant's own.",
        "asked_by": "Who asked for it.",
        "asked_at": "When it was asked for.",
        "decided_by": "Who approved, rejected or withdrew it, and why.",
        "decided_at": "When it was decided; 0: it was not.",
        "outcome": "What an approval came to, where it is not plain: of what was done in bulk each result, and why it failed."
    },
    "DecideApprovalRequest": {
        "may_decide": "Operations that who asks has the roles for, of those that may wait: the edge says so."
    },
    "ApprovalReply": {
        "approval": "The approval."
    },
    "ApiToken": {
        "name": "Who it is, with its id, in the audit log.",
        "roles": "Of admin, designer and reward_manager.",
        "merchant_id": "The merchant that it acts for; empty: the tenant.",
        "expires_at": "Left out: in 90 days.",
        "made_by": "Who made the token.",
        "last_used_at": "The hour of it; 0: not yet.",
        "revoked_at": "0: it was not.",
        "secret": "The token itself: in the answer that makes it, and never again."
    },
    "ListTokensRequest": {
        "q": "Part of a name.",
        "made_by": "Only those that this subject made."
    },
    "OpenTokenRequest": {
        "token_hash": "The token, as a hash."
    }
}
