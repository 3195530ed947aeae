"""The one table of operations: what Core can be asked, over REST and RPC alike.

A row says its RPC's service and name, its REST verb and path (under /api/v1; on Core the edges'
`/admin` prefix is optional), the types of request and reply, and the function that does it. The RPC
server, Core's REST surface, the metrics and the OpenAPI documents are loops over this table; a test
holds that game.proto's RPCs and these rows are the same set.

Most operations are a function of one request. One with a `box` is an actor's instead: its requests
wait in the mailbox of their key (a game, a tenant), and the actor's turn does all of them together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from runtime import messages as m
from runtime.actors import claims
from runtime.actors.committer import OVERLAP
from runtime.actors.engine import Engine
from runtime.actors.game import batch as play
from runtime.actors.game.actor import GameActor
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status
from runtime.operations import audit, fulfillment, integrations, players, quests, tenancy, wallet
from runtime.operations.campaigns import analytics, duplication
from runtime.operations.campaigns import records as campaigns
from runtime.operations.games import history, storefront
from runtime.operations.games import records as games
from runtime.operations.leaderboards import finalize
from runtime.operations.leaderboards import records as leaderboards
from runtime.operations.prizes import codes
from runtime.operations.prizes import records as prizes
from runtime.operations.rewards import records as rewards
from runtime.operations.rewards import reward_admin
from runtime.wire.scope import tenant_of

API: Final = "/api/v1"


@dataclass(frozen=True, slots=True)
class Box:
    """A kind of actor: what its requests queue behind (`key`), what it remembers (`new`), what it does (`turn`)."""

    name: str
    key: Callable[[Any], Hashable]
    new: Callable[[Engine, Any], Any]
    turn: Callable[[Any, list[Work[Any]]], Awaitable[None]]
    overlap: int = 1


GAMES: Final = Box(
    "games",
    key=lambda request: (request.scope.tenant_id, request.id),
    new=GameActor,
    turn=play.turn,
    overlap=OVERLAP,
)
"""A game's actor: its plays, starts and redeems."""

CLAIMS: Final = Box("claims", key=tenant_of, new=claims.Claimer, turn=claims.turn)
"""A tenant's claims, committed together."""

Run = Callable[[Engine, Any], Awaitable[Any]]


async def unimplemented(engine: Engine, request: Any) -> Any:
    """An operation that this version does not have yet."""
    raise Fault(Status.UNIMPLEMENTED, "UNIMPLEMENTED", "this operation is not built yet")


@dataclass(frozen=True, slots=True)
class Operation:
    """One row. `resource` is the request's field that wraps a resource ("game"), else empty."""

    service: str
    name: str
    verb: str
    path: str
    request: type[Any]
    reply: type[Any]
    run: Run = unimplemented
    resource: str = ""
    box: Box | None = None

    @property
    def rpc_path(self) -> str:
        """gRPC's path: /game.v1.GameService/CreateGame."""
        return f"/game.v1.{self.service}/{self.name}"


# fmt: off
OPERATIONS: Final[tuple[Operation, ...]] = (
    # CampaignService
    Operation("CampaignService", "CreateCampaign", "POST", "/campaigns", m.CreateCampaignRequest, m.CampaignReply, resource="campaign", run=campaigns.create_campaign),
    Operation("CampaignService", "GetCampaign", "GET", "/campaigns/{id}", m.GetCampaignRequest, m.CampaignReply, run=campaigns.get_campaign),
    Operation("CampaignService", "ListCampaigns", "GET", "/campaigns", m.ListCampaignsRequest, m.ListCampaignsReply, run=campaigns.list_campaigns),
    Operation("CampaignService", "UpdateCampaign", "PUT", "/campaigns/{id}", m.UpdateCampaignRequest, m.CampaignReply, resource="campaign", run=campaigns.update_campaign),
    Operation("CampaignService", "DuplicateCampaign", "POST", "/campaigns/{id}/duplicate", m.DuplicateCampaignRequest, m.CampaignReply, run=duplication.duplicate_campaign),
    Operation("CampaignService", "GetCampaignAnalytics", "GET", "/campaigns/{id}/analytics", m.GetCampaignRequest, m.CampaignAnalyticsReply, run=analytics.get_campaign_analytics),
    Operation("CampaignService", "GetPublicCampaign", "GET", "/public/campaigns/{id}", m.GetCampaignRequest, m.PublicCampaignReply, run=storefront.get_public_campaign),
    # GameService
    Operation("GameService", "CreateGame", "POST", "/games", m.CreateGameRequest, m.GameReply, resource="game", run=games.create_game),
    Operation("GameService", "GetGame", "GET", "/games/{id}", m.GetGameRequest, m.GameReply, run=games.get_game),
    Operation("GameService", "ListGames", "GET", "/games", m.ListGamesRequest, m.ListGamesReply, run=games.list_games),
    Operation("GameService", "UpdateGame", "PUT", "/games/{id}", m.UpdateGameRequest, m.GameReply, resource="game", run=games.update_game),
    Operation("GameService", "DeleteGame", "DELETE", "/games/{id}", m.DeleteRequest, m.DeleteReply, run=games.delete_game),
    Operation("GameService", "RenderGame", "GET", "/games/{id}/render", m.GetGameRequest, m.RenderReply, run=storefront.render_game),
    # PlayService
    Operation("PlayService", "Start", "POST", "/games/{id}/start", m.StartRequest, m.StartReply, box=GAMES),
    Operation("PlayService", "Play", "POST", "/games/{id}/play", m.PlayRequest, m.PlayReply, box=GAMES),
    Operation("PlayService", "GetEligibility", "GET", "/games/{id}/eligibility", m.EligibilityRequest, m.EligibilityReply, box=GAMES),
    Operation("PlayService", "ListHistory", "GET", "/games/{id}/history/me", m.ListHistoryRequest, m.ListHistoryReply, run=history.list_history),
    Operation("PlayService", "ReplayPlay", "POST", "/plays/{id}/replay", m.ReplayPlayRequest, m.ReplayPlayReply, run=history.replay_play),
    # PrizeService
    Operation("PrizeService", "CreatePrize", "POST", "/prizes", m.CreatePrizeRequest, m.PrizeReply, resource="prize", run=prizes.create_prize),
    Operation("PrizeService", "GetPrize", "GET", "/prizes/{id}", m.GetPrizeRequest, m.PrizeReply, run=prizes.get_prize),
    Operation("PrizeService", "ListPrizes", "GET", "/prizes", m.ListPrizesRequest, m.ListPrizesReply, run=prizes.list_prizes),
    Operation("PrizeService", "UpdatePrize", "PUT", "/prizes/{id}", m.UpdatePrizeRequest, m.PrizeReply, resource="prize", run=prizes.update_prize),
    Operation("PrizeService", "DeletePrize", "DELETE", "/prizes/{id}", m.DeleteRequest, m.DeleteReply, run=prizes.delete_prize),
    Operation("PrizeService", "ListPrizeSummary", "GET", "/prizes/summary", m.ListPrizesRequest, m.ListPrizeSummaryReply, run=prizes.list_prize_summary),
    Operation("PrizeService", "ImportCodes", "POST", "/prizes/{id}/codes", m.ImportCodesRequest, m.ImportCodesReply, run=codes.import_codes),
    # WalletService
    Operation("WalletService", "ListBalances", "GET", "/wallet", m.ListBalancesRequest, m.ListBalancesReply, run=wallet.list_balances),
    Operation("WalletService", "ListLedger", "GET", "/wallet/ledger", m.ListLedgerRequest, m.ListLedgerReply, run=wallet.list_ledger),
    Operation("WalletService", "AdjustBalance", "POST", "/wallet/adjustments", m.AdjustBalanceRequest, m.LedgerEntryReply, run=wallet.adjust_balance),
    # MilestoneService
    Operation("MilestoneService", "ListMilestones", "GET", "/games/{id}/milestones", m.ListMilestonesRequest, m.ListMilestonesReply, box=GAMES),
    Operation("MilestoneService", "Redeem", "POST", "/games/{id}/redeem", m.RedeemRequest, m.RedeemReply, box=GAMES),
    # RewardService
    Operation("RewardService", "ListRewards", "GET", "/rewards/me", m.ListRewardsRequest, m.ListRewardsReply, run=rewards.list_rewards),
    Operation("RewardService", "SearchRewards", "GET", "/rewards", m.SearchRewardsRequest, m.SearchRewardsReply, run=rewards.search_rewards),
    Operation("RewardService", "ClaimReward", "POST", "/rewards/{id}/claim", m.ClaimRewardRequest, m.RewardReply, box=CLAIMS),
    Operation("RewardService", "FulfillReward", "POST", "/rewards/{id}/fulfill", m.FulfillRewardRequest, m.RewardReply, run=reward_admin.fulfill),
    Operation("RewardService", "RevokeReward", "POST", "/rewards/{id}/revoke", m.RevokeRewardRequest, m.RewardReply, run=reward_admin.revoke),
    # QuestService
    Operation("QuestService", "CreateQuest", "POST", "/quests", m.CreateQuestRequest, m.QuestReply, resource="quest", run=quests.create_quest),
    Operation("QuestService", "GetQuest", "GET", "/quests/{id}", m.GetQuestRequest, m.QuestReply, run=quests.get_quest),
    Operation("QuestService", "ListQuests", "GET", "/quests", m.ListQuestsRequest, m.ListQuestsReply, run=quests.list_quests),
    Operation("QuestService", "UpdateQuest", "PUT", "/quests/{id}", m.UpdateQuestRequest, m.QuestReply, resource="quest", run=quests.update_quest),
    Operation("QuestService", "DeleteQuest", "DELETE", "/quests/{id}", m.DeleteRequest, m.DeleteReply, run=quests.delete_quest),
    Operation("QuestService", "CompleteQuest", "POST", "/quests/{id}/complete", m.CompleteQuestRequest, m.CompleteQuestReply, run=quests.complete_quest),
    Operation("QuestService", "ListTurns", "GET", "/players/me/turns", m.ListTurnsRequest, m.ListTurnsReply, run=quests.list_turns),
    # PlayerService
    Operation("PlayerService", "ResolvePlayer", "POST", "/players/resolve", m.ResolvePlayerRequest, m.ResolvePlayerReply, run=players.resolve_player),
    Operation("PlayerService", "GetPlayer", "GET", "/players/me", m.GetPlayerRequest, m.PlayerReply, run=players.get_player),
    Operation("PlayerService", "UpdatePlayer", "PUT", "/players/me", m.UpdatePlayerRequest, m.PlayerReply, resource="player", run=players.update_player),
    Operation("PlayerService", "LinkContact", "POST", "/players/me/contacts", m.LinkContactRequest, m.ContactReply, run=players.link_contact),
    # LeaderboardService
    Operation("LeaderboardService", "CreateLeaderboard", "POST", "/leaderboards", m.CreateLeaderboardRequest, m.LeaderboardReply, run=leaderboards.create_leaderboard, resource="leaderboard"),
    Operation("LeaderboardService", "GetLeaderboard", "GET", "/leaderboards/{id}", m.GetLeaderboardRequest, m.LeaderboardReply, run=leaderboards.get_leaderboard),
    Operation("LeaderboardService", "ListLeaderboards", "GET", "/leaderboards", m.ListLeaderboardsRequest, m.ListLeaderboardsReply, run=leaderboards.list_leaderboards),
    Operation("LeaderboardService", "UpdateLeaderboard", "PUT", "/leaderboards/{id}", m.UpdateLeaderboardRequest, m.LeaderboardReply, run=leaderboards.update_leaderboard, resource="leaderboard"),
    Operation("LeaderboardService", "DeleteLeaderboard", "DELETE", "/leaderboards/{id}", m.DeleteRequest, m.DeleteReply, run=leaderboards.delete_leaderboard),
    Operation("LeaderboardService", "ListRankings", "GET", "/leaderboards/{id}/rankings", m.ListRankingsRequest, m.ListRankingsReply, run=leaderboards.list_rankings),
    Operation("LeaderboardService", "FinalizeLeaderboard", "POST", "/leaderboards/{id}/finalize", m.GetLeaderboardRequest, m.FinalizeLeaderboardReply, run=finalize.finalize_leaderboard),
    Operation("LeaderboardService", "DisqualifyPlayer", "POST", "/leaderboards/{id}/disqualify", m.DisqualifyPlayerRequest, m.DisqualifyPlayerReply, run=leaderboards.disqualify_player),
    Operation("LeaderboardService", "AdjustScore", "POST", "/leaderboards/{id}/adjust", m.AdjustScoreRequest, m.RankingReply, run=leaderboards.adjust_score),
    # IntegrationService
    Operation("IntegrationService", "CreateIntegration", "POST", "/integrations", m.CreateIntegrationRequest, m.IntegrationReply, resource="integration", run=integrations.create_integration),
    Operation("IntegrationService", "ListIntegrations", "GET", "/integrations", m.ListIntegrationsRequest, m.ListIntegrationsReply, run=integrations.list_integrations),
    Operation("IntegrationService", "DeleteIntegration", "DELETE", "/integrations/{id}", m.DeleteRequest, m.DeleteReply, run=integrations.delete_integration),
    Operation("IntegrationService", "EmitEvent", "POST", "/integrations/emit", m.EmitEventRequest, m.EmitEventReply, run=integrations.emit_event),
    Operation("IntegrationService", "ListIntegrationDeliveries", "GET", "/integrations/{id}/deliveries", m.ListIntegrationDeliveriesRequest, m.ListIntegrationDeliveriesReply, run=integrations.list_deliveries),
    # FulfillmentService
    Operation("FulfillmentService", "ListTasks", "GET", "/fulfillment/tasks", m.ListTasksRequest, m.ListTasksReply, run=fulfillment.list_tasks),
    Operation("FulfillmentService", "RetryTask", "POST", "/fulfillment/tasks/{id}/retry", m.RetryTaskRequest, m.TaskReply, run=fulfillment.retry_task),
    Operation("FulfillmentService", "CompleteTask", "POST", "/fulfillment/tasks/{id}/callback", m.CompleteTaskRequest, m.TaskReply, run=fulfillment.complete_task),
    Operation("FulfillmentService", "VerifyCallback", "POST", "/fulfillment/tasks/{id}/callback/verify", m.VerifyCallbackRequest, m.VerifyCallbackReply, run=fulfillment.verify_callback),
    # TenancyService
    Operation("TenancyService", "CreateTenant", "POST", "/tenants", m.CreateTenantRequest, m.TenantReply, resource="tenant", run=tenancy.create_tenant),
    Operation("TenancyService", "ListTenants", "GET", "/tenants", m.ListTenantsRequest, m.ListTenantsReply, run=tenancy.list_tenants),
    Operation("TenancyService", "CreateMerchant", "POST", "/merchants", m.CreateMerchantRequest, m.MerchantReply, resource="merchant", run=tenancy.create_merchant),
    Operation("TenancyService", "ListMerchants", "GET", "/merchants", m.ListMerchantsRequest, m.ListMerchantsReply, run=tenancy.list_merchants),
    Operation("TenancyService", "ListAuditEntries", "GET", "/audit", m.ListAuditEntriesRequest, m.ListAuditEntriesReply, run=audit.list_audit_entries),
)
# fmt: on

BY_NAME: Final[dict[str, Operation]] = {operation.name: operation for operation in OPERATIONS}
"""Operation by RPC name: names are unique over all services."""
