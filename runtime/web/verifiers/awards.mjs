// The milestones, balances and leaderboards of a dossier, computed again from its plays, movements and audit entries.
// @ts-nocheck

import { same } from "./verify.mjs";

const UNCERTAIN = 10_000_000; // Microseconds: plays so shortly before or after a board was closed may count or not.
const push = (map, key, one) => (map.has(key) ? map.get(key).push(one) : map.set(key, [one]));
const add = (map, key, amount) => map.set(key, (map.get(key) ?? 0) + amount);
const sum = (moves) => moves.reduce((total, one) => total + one.amount, 0);
const ordered = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export class Awards {
  games = new Map();
  rungs = [];
  changed = new Set(); // Games and prizes that were changed.
  wallets = new Map();
  spent = new Map(); // Reward -> its movements.
  credits = new Map(); // Play and currency -> what it won, less what was credited.
  granted = new Map(); // Reward -> the play that granted its milestone.
  boards = [];
  closings = new Map(); // Board -> when it was closed, by its audit entry.
  corrections = [];
  disqualified = new Set();

  game({ id, scope, milestones }) {
    this.games.set(id, scope);
    this.block(id, milestones, true);
  }

  block(game, block, isCurrent) {
    const spends = /spend_exchange$/i.test(block?.mode ?? "");
    for (const rung of block?.rungs ?? []) this.rungs.push({ ...rung, game, spends, isAuto: block.auto_grant === true, isCurrent });
  }

  ledger(one) {
    const movement = { ...one, at: Math.floor(Date.parse(one.created_at) / 1e3) };
    push(this.wallets, JSON.stringify([one.player, one.scope_key, one.currency]), movement);
    if (one.reward_id) push(this.spent, one.reward_id, movement);
    if (one.reason === "play_reward" && !one.reward_id) add(this.credits, `${one.reference_id} ${one.currency}`, -one.amount);
  }

  board(board) {
    const last = (text) => text.split("_").at(-1).toLowerCase();
    const closed = (board.finalized_at ?? board.updated_at) * 1e6; // Earlier files have the latter.
    this.boards.push({ ...board, metric: last(board.metric), mode: last(board.mode), closed });
  }

  /** What a play credits and grants. Returns how leaderboards count it. */
  play({ id, game_id }, stored) {
    let points = 0;
    for (const won of stored.rewards) {
      const isItem = won.prize_id === ""; // A prize may have the type "item" too.
      const amount = isItem ? won.quantity : Math.trunc(won.value) * won.quantity;
      if (!(isItem || won.type === "points") || !amount) continue;
      const currency = isItem ? won.name : "points";
      if (this.games.get(game_id)) add(this.credits, `${id} ${currency}`, amount);
      if (currency === "points") points += amount;
    }
    for (const one of stored.milestones_granted) this.granted.set(one.reward_id, { play_id: id, game_id, milestone_id: one.id, prize_id: one.prize_id });
    return { score: stored.decided.score, wins: stored.rewards.length, points };
  }

  audit({ action, subject_type: type, subject_id: subject, before, after }, micro) {
    const blocks = [before, after].map((side) => side?.definition?.milestones ?? null);
    const isChanged = type === "game" ? !same(...blocks) : type === "prize" && action !== "prize.move_stock";
    if (before && isChanged) this.changed.add(subject);
    if (type === "game") for (const block of blocks) this.block(subject, block, false);
    else if (action === "leaderboard.adjust") this.corrections.push({ board: subject, player: after.player_id, delta: after.delta, at: micro });
    else if (action === "leaderboard.finalize") this.closings.set(subject, Math.min(micro, this.closings.get(subject) ?? Infinity));
    else if (action === "leaderboard.disqualify") this.disqualified.add(`${subject} ${after.player_id}`);
  }

  /** [text, names of wrong rows, whether they are open rather than wrong] */
  *problems({ head, plays, rewards, winners, prizes, stock, until, isLogged }) {
    yield ["movements of balances continue each other", [...this.wallets.values()].flatMap(broken)];
    const movements = [...this.wallets.values()].flatMap(withTimes);
    const isKnown = (credit) => plays.has(credit.split(" ")[0]);
    yield ["plays credited what they won", [...this.credits].filter(([key, sum]) => sum && isKnown(key)).map(([key]) => key.split(" ")[0])];
    const isFree = (id, quantity) => prizes.get(id)?.campaign_id === head.campaign.id && !this.changed.has(id) && stock.free(prizes.get(id)) >= quantity;
    const unlogged = movements.filter((one) => one.reason === "adjustment" && one.entry === undefined && one.before < until);
    yield ["adjustments are in the log", isLogged ? unlogged.map((one) => one.id) : []];
    const unfounded = movements.map((one) => [one, this.isFounded(one, plays, rewards)]).filter(([, isFounded]) => !isFounded);
    const isWrong = ([one, isFounded]) => isFounded === false && one.scope_key === head.campaign.id && one.before < until;
    yield ["movements are of plays and rewards in the file", unfounded.filter(isWrong).map(([one]) => one.id)];
    this.unshown = unfounded.filter((one) => !isWrong(one)).length;
    const ungranted = [...this.granted].filter(([id, one]) => Object.keys(one).some((name) => rewards.get(id)?.[name] !== one[name]));
    yield ["milestones that plays granted have their reward", ungranted.map(([, one]) => one.play_id)];
    const reached = [...rewards.values()].filter((one) => one.milestone_id && one.status !== "revoked" && (one.entry !== undefined || !isLogged) && !this.isReached(one));
    yield ["rewards of milestones follow from the balances, or from the plays that granted them", reached.map((one) => one.id)];
    const { withheld, unavailable, redeemed } = this.ungiven(plays, rewards, isFree);
    yield ["milestones that plays reached were granted if a unit was free", withheld];
    yield ["milestones were granted to all who reached them: their prizes may have been unavailable, as the operator states", unavailable, true];
    yield ["milestones were granted to all who reached them: the others have not redeemed them", redeemed, true];
    for (const board of this.boards.sort((a, b) => ordered(a.id, b.id))) {
      const ranks = winners.filter((one) => one.of === board.id).sort((a, b) => a.rank - b.rank);
      const [wrong, unshown] = this.misranked(board, ranks, [...plays.values()]);
      const text = `ranks of ${board.id} follow from the plays`;
      yield [text, wrong];
      yield [`${text}: those of merged guests count for their players`, unshown, true];
    }
  }

  /** Whether a movement follows from a play, a reward or the log; null: the file cannot show it. */
  isFounded({ reason, reward_id: id, reference_id: play, player, scope_key, currency, amount, entry }, plays, rewards) {
    const [reward, moved] = [rewards.get(id), this.spent.get(id) ?? []];
    if (reason === "milestone_spend") return !!reward && amount < 0;
    if (reason === "play_reward" && !id) return plays.get(play)?.player === player;
    if (reason === "play_reward") {
      const won = sum(moved.filter((one) => one.reason === reason));
      return reward?.type === "points" && currency === "points" && won === Math.trunc(reward.value) * reward.quantity;
    }
    if (reason !== "reversal" || !id) return (reason === "adjustment" && entry !== undefined) || null;
    // Takes back what the reward moved, or less.
    const own = moved.filter((one) => one.player === player && one.scope_key === scope_key && one.currency === currency);
    const [left, whole] = [sum(own), sum(own.filter((one) => one.reason !== reason))];
    return left >= Math.min(0, whole) && left <= Math.max(0, whole);
  }

  /** Whether a milestone's reward follows from a balance, or from the play that granted it. */
  isReached(one) {
    const scope = this.games.get(one.game_id);
    if (scope === undefined || (one.play_id && this.granted.get(one.id)?.play_id !== one.play_id)) return false;
    if (!scope) return true; // Its balances are not in the file.
    return this.rungs.some((rung) => {
      if (rung.game !== one.game_id || rung.id !== one.milestone_id || rung.prize_id !== one.prize_id || one.quantity !== 1) return false;
      const own = this.wallets.get(JSON.stringify([one.player, scope, rung.currency])) ?? [];
      if (rung.spends) return own.some((move) => move.reward_id === one.id && move.amount === -rung.threshold);
      return own.some((move) => move.balance_after >= rung.threshold && move.at <= one.at);
    });
  }

  /** The rungs that were reached but not granted, by the reason. */
  ungiven(plays, rewards, isFree) {
    const found = { withheld: [], unavailable: [], redeemed: [] };
    const given = new Set([...rewards.values()].filter((one) => one.milestone_id).map((one) => JSON.stringify([one.game_id, one.milestone_id, one.player])));
    for (const rung of this.rungs.filter((one) => one.isCurrent && this.games.get(one.game)))
      for (const [wallet, moves] of this.wallets) {
        const [player, scope, currency] = JSON.parse(wallet);
        const reached = moves.filter((one) => one.balance_after >= rung.threshold);
        if (scope !== this.games.get(rung.game) || currency !== rung.currency || !reached.length) continue;
        if (given.has(JSON.stringify([rung.game, rung.id, player]))) continue;
        const isOfPlay = (one) => one.reason === "play_reward" && plays.get(one.reference_id)?.game === rung.game;
        const wasFree = !this.changed.has(rung.game) && isFree(rung.prize_id, 1);
        found[!rung.isAuto || !reached.some(isOfPlay) ? "redeemed" : wasFree ? "withheld" : "unavailable"].push(`rung ${rung.id} of ${player}`);
      }
    return found;
  }

  /** Player -> score and when it was reached, counting plays until so long after the board was closed. */
  scores(board, plays, slack) {
    const [reduced, scores] = [new Map(), new Map()];
    for (const play of plays) {
      const isWithin = play.micro < board.closed + slack && play.at >= board.start_date && (!board.end_date || play.at < board.end_date);
      if (isWithin && (!board.game_id || board.game_id === play.game)) push(reduced, play.player, { ...play, value: play[board.metric] ?? 1 });
    }
    for (const [player, own] of reduced) scores.set(player, reduce(own, board.mode));
    for (const { player, delta, at } of this.corrections.filter((one) => one.board === board.id)) {
      const { score, reached } = scores.get(player) ?? { score: 0, reached: 0 };
      scores.set(player, { score: score + delta, reached: Math.max(reached, at) });
    }
    for (const player of scores.keys()) if (this.disqualified.has(`${board.id} ${player}`)) scores.delete(player);
    return scores;
  }

  /**
   * Wrong ranks, and those that are wrong unless a guest was merged into a ranked player: the guest's own, those whose score
   * is too low (or a latest one), and the order of equal scores.
   */
  misranked(board, ranks, plays) {
    const players = new Set(plays.map((one) => one.player));
    const closed = this.closings.get(board.id) ?? board.closed;
    const [early, late] = [-UNCERTAIN, UNCERTAIN].map((slack) => this.scores({ ...board, closed }, plays, slack));
    const stated = ranks.map((one) => {
      const [least, most] = [early.get(one.player), late.get(one.player)];
      return { ...one, least, most, isCertain: least?.score === most?.score && least?.reached === most?.reached, isStranger: !players.has(one.player) && one.score !== most?.score };
    });
    const isWrong = (one, at) => {
      const next = stated[at + 1];
      if ((!one.most && !one.isStranger) || one.rank !== at + 1 || next?.score > one.score) return true;
      if (one.score > one.most?.score && board.mode !== "latest" && !one.isStranger) return true;
      const prize = one.score > 0 ? board.prizes.find((held) => held.from_rank <= one.rank && one.rank <= held.to_rank) : null;
      return one.prize_id !== (prize?.prize_id ?? "");
    };
    const isUnshown = (one, at) => {
      const next = stated[at + 1];
      if (one.isStranger || (next?.score === one.score && one.isCertain && next.isCertain && next.most?.reached < one.most.reached)) return true;
      return board.mode === "latest" ? one.isCertain && one.score !== one.most.score : one.score < (one.least ?? one.most).score;
    };
    const named = new Set(ranks.map((one) => one.player));
    const missing = [...early.keys()].filter((player) => !named.has(player)).map(() => "a missing rank");
    const wrong = stated.filter(isWrong);
    const unshown = stated.filter((one, at) => isUnshown(one, at) && !wrong.includes(one));
    const [failed, open] = [wrong, unshown].map((found) => found.map((one) => `rank ${one.rank}`));
    return stated.some((one) => one.isStranger) ? [[...failed, ...missing], open] : [[...failed, ...open, ...missing], []];
  }
}

/** The movements of a wallet that do not continue the one before. */
function broken(moves) {
  let before = 0;
  const isBroken = (one) => {
    const isWrong = before + one.amount !== one.balance_after;
    before = one.balance_after;
    return isWrong;
  };
  return moves.sort((a, b) => a.seq - b.seq || ordered(a.id, b.id)).filter(isBroken).map((one) => one.id);
}

/** The movements of a sorted wallet. before: a movement existed then, since a later one did. */
function withTimes(moves) {
  let before = Infinity;
  return moves.map((_, at) => moves.at(-1 - at)).map((one) => ({ ...one, before: (before = Math.min(before, one.at)) }));
}

/** A player's score of a board, and when it was reached. */
function reduce(plays, mode) {
  if (mode === "sum") {
    const counted = plays.filter((one) => one.value !== 0).map((one) => one.micro);
    const newest = counted.reduce((a, b) => Math.max(a, b), 0);
    const oldest = plays.reduce((least, one) => Math.min(least, one.micro), Infinity);
    return { score: plays.reduce((sum, one) => sum + one.value, 0), reached: counted.length ? newest : oldest };
  }
  const first = mode === "best" ? (a, b) => b.value - a.value || a.micro - b.micro : (a, b) => b.micro - a.micro || ordered(b.id, a.id);
  const [top] = plays.sort(first);
  return { score: top.value, reached: top.micro };
}
