// All pages: each is a module, loaded on its first visit.

/**
 * @typedef {object} Route
 * @property {string} path below /dashboard; `:name` stands for a part of it
 * @property {string} needs the operation without which the page shows nothing: who may not do it does not see the page
 * @property {() => Promise<{default: (props: any) => any}>} load its default export is given the path's parts and `query`
 * @property {string} [nav] its name in the navigation, a key of words; without one it is not there
 * @property {string} [icon] of ICONS in shell.js
 * @property {string} [group] of GROUPS: where it is in the navigation
 */

/** The groups of the navigation, in order. */
export const GROUPS = ["overview", "play", "players", "control", "settings"];

/** @type {Route[]} */
export const ROUTES = [
  { path: "/", needs: "", load: () => import("./pages/home.js"), nav: "nav.home", icon: "home", group: "overview" },
  { path: "/campaigns", needs: "ListCampaigns", load: () => import("./pages/campaigns.js"), nav: "nav.campaigns", icon: "flag", group: "play" },
  { path: "/campaigns/gallery", needs: "CreateCampaign", load: () => import("./pages/gallery.js") },
  { path: "/campaigns/:id", needs: "GetCampaign", load: () => import("./pages/campaign.js") },
  { path: "/campaigns/:id/page", needs: "UpdateCampaign", load: () => import("./pages/campaign_page.js") },
  { path: "/campaigns/:id/messages", needs: "PreviewMessage", load: () => import("./pages/campaign_messages.js") },
  { path: "/campaigns/:id/games/new", needs: "CreateGame", load: () => import("./pages/game_new.js") },
  { path: "/games", needs: "ListGames", load: () => import("./pages/games.js"), nav: "nav.games", icon: "wheel", group: "play" },
  { path: "/games/:id", needs: "GetGame", load: () => import("./pages/game.js") },
  { path: "/prizes", needs: "ListPrizeSummary", load: () => import("./prizes/list.js"), nav: "nav.prizes", icon: "cup", group: "play" },
  { path: "/prizes/new", needs: "CreatePrize", load: () => import("./prizes/new.js") },
  { path: "/prizes/:id", needs: "GetPrize", load: () => import("./prizes/one.js") },
  { path: "/leaderboards", needs: "ListLeaderboards", load: () => import("./contests/boards.js"), nav: "nav.boards", icon: "trophy", group: "play" },
  { path: "/leaderboards/:id", needs: "GetLeaderboard", load: () => import("./contests/board.js") },
  { path: "/quests", needs: "ListQuests", load: () => import("./contests/quests.js"), nav: "nav.quests", icon: "star", group: "play" },
  { path: "/packs", needs: "ListPacks", load: () => import("./contests/packs.js"), nav: "packs.title", icon: "list", group: "play" },
  { path: "/packs/:id", needs: "GetPack", load: () => import("./contests/pack.js") },
  { path: "/draws", needs: "ListDraws", load: () => import("./contests/draws.js"), nav: "draws.title", icon: "cup", group: "play" },
  { path: "/draws/:id", needs: "GetDraw", load: () => import("./contests/draw.js") },
  { path: "/players", needs: "SearchPlayers", load: () => import("./pages/players.js"), nav: "nav.players", icon: "people", group: "players" },
  { path: "/players/:id", needs: "InspectPlayer", load: () => import("./pages/player.js") },
  { path: "/rewards", needs: "SearchRewards", load: () => import("./pages/rewards.js"), nav: "nav.rewards", icon: "gift", group: "players" },
  { path: "/deliveries", needs: "ListTasks", load: () => import("./pages/deliveries.js"), nav: "nav.deliveries", icon: "truck", group: "players" },
  { path: "/integrations", needs: "ListIntegrations", load: () => import("./pages/integrations.js"), nav: "nav.integrations", icon: "plug", group: "settings" },
  { path: "/analytics", needs: "GetCampaignFigures", load: () => import("./pages/analytics.js"), nav: "nav.analytics", icon: "chart", group: "overview" },
  { path: "/approvals", needs: "ListApprovals", load: () => import("./pages/approvals.js"), nav: "nav.approvals", icon: "check", group: "control" },
  { path: "/approvals/:id", needs: "GetApproval", load: () => import("./pages/approval.js") },
  { path: "/audit", needs: "ListAuditEntries", load: () => import("./pages/audit.js"), nav: "nav.audit", icon: "list", group: "control" },
  { path: "/violations", needs: "ListViolations", load: () => import("./pages/violations.js"), nav: "nav.violations", icon: "scales", group: "control" },
  { path: "/people", needs: "ListTokens", load: () => import("./office/people.js"), nav: "nav.people", icon: "key", group: "settings" },
  { path: "/merchants", needs: "ListMerchants", load: () => import("./office/owners.js"), nav: "nav.merchants", icon: "people", group: "settings" },
  { path: "/tenants", needs: "CreateTenant", load: () => import("./office/owners.js"), nav: "nav.tenants", icon: "people", group: "settings" },
];
