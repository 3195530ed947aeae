// Who leads, and where the player stands: always in sight.

import { h } from "../dom.js";
import { blank, chip, known, pages, prizeName, refusal, skeleton } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

const MEDALS = ["🥇", "🥈", "🥉"];

/** @param {Panel} panel */
export async function open(panel) {
  const { root, words, api, render } = panel;
  const waiting = skeleton(panel);
  root.append(waiting);
  let boards;
  try {
    ({ leaderboards: boards } = await api.get(`/public/campaigns/${encodeURIComponent(render.campaign_id)}`));
  } catch (error) {
    return waiting.replaceWith(refusal(panel, error));
  }
  const own = boards.filter((/** @type {any} */ board) => !board.game_id || board.game_id === render.id);
  if (!own.length) return waiting.replaceWith(blank(panel, "🏆", words.t("ranking_none")));
  const body = h("div", {});
  const choices = own.map((/** @type {any} */ board) =>
    h("button", { class: "small", type: "button", "aria-pressed": "false", onclick: () => void choose(board) }, board.name),
  );
  waiting.replaceWith(...(own.length > 1 ? [h("div", { class: "choices" }, ...choices)] : []), body);
  await choose(own[0]);

  /** @param {any} board */
  async function choose(board) {
    choices.forEach((/** @type {HTMLElement} */ choice, /** @type {number} */ i) => choice.setAttribute("aria-pressed", String(own[i] === board)));
    const into = h("div", {});
    body.replaceChildren(into);
    into.append(head(panel, board, own.length > 1));
    /** @type {any} */
    let me;
    const list = await pages(panel, `/leaderboards/${encodeURIComponent(board.id)}/rankings`, (place, reply) => row(panel, place, reply.me), {
      tag: "ol",
      into,
      blank: () => blank(panel, "🏆", words.t("ranking_none")),
      first: (reply) => (me = reply.me),
    });
    list.classList.add("ranking");
    if (!me) {
      if (!known(panel)) into.append(h("p", { class: "quiet center" }, words.t("ranking_nobody")));
      return;
    }
    // A player outside the loaded ranks is shown below them, until a later page contains them.
    const below = row(panel, me, me);
    const settle = () => {
      const shown = [...list.children].some((item) => item !== below && item.hasAttribute("data-me"));
      if (shown) below.remove();
      else if (list.lastElementChild !== below) list.append(below);
    };
    settle();
    new MutationObserver(settle).observe(list, { childList: true });
  }
}

/** What the board counts, until when, and what is to be won on it. @param {Panel} panel @param {any} board @param {boolean} named whether its name is seen elsewhere */
function head(panel, board, named) {
  const { words } = panel;
  const final = board.status === "LEADERBOARD_STATUS_FINALIZED";
  const details = [words.t(`metric_${String(board.metric).replace("LEADERBOARD_METRIC_", "")}`)];
  if (final) details.push(words.t("ranking_final"));
  else if (board.end_date > 0) details.push(words.t("ends", { when: words.when(Number(board.end_date)) }));
  const prizes = board.prizes.flatMap((/** @type {any} */ prize) => {
    const name = prizeName(panel, prize.prize_id);
    const ranks = prize.to_rank > prize.from_rank ? `${words.number(prize.from_rank)}–${words.number(prize.to_rank)}` : words.number(prize.from_rank);
    return name ? [chip(`${ranks}: ${name}`, "due")] : [];
  });
  return h("div", { class: "head" }, !named && h("h3", {}, board.name), h("p", { class: "quiet" }, details.filter(Boolean).join(" · ")), prizes.length > 0 && h("div", { class: "chips" }, ...prizes));
}

/** @param {Panel} panel @param {any} place @param {any} me */
function row({ words }, place, me) {
  const mine = Boolean(me && me.player_id === place.player_id);
  const rank = Number(place.rank);
  const medal = MEDALS[rank - 1];
  return h(
    "li",
    { class: "item place", "data-me": mine, "data-rank": rank, "aria-current": mine && "true" },
    h("span", { class: "rank" }, medal && h("span", { class: "picture", "aria-hidden": "true" }, medal), h("span", { class: medal ? "listen" : "" }, words.number(rank))),
    h("span", { class: "name" }, h("bdi", {}, place.display_name || words.t("nameless")), mine && chip(words.t("you"), "due")),
    h("strong", { class: "score" }, words.number(Number(place.score))),
  );
}
