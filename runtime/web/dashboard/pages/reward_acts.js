// The buttons of a reward: what may be done to it, and what its winner answered.
import { html } from "../lib.js";
import { Act } from "../parts/button.js";
import { can } from "../session.js";
import { say } from "../words.js";
import { Answers } from "./reward_answers.js";
import { MOVES, moveReward } from "./reward_moves.js";

/** @param {{reward: any, changed: () => any}} props */
export function RewardActs({ reward, changed }) {
  const moves = Object.entries(MOVES).filter(([, { from, needs }]) => from.includes(reward.status) && can(needs));
  return html`<div class="acts">
    ${moves.map(([move]) => html`<${Act} class=${`${move === "revoke" ? "danger" : "secondary"} outline small`} act=${() => moveReward(move, reward, changed)}>${say(`rewards.${move}`)}<//>`)}
    <${Answers} reward=${reward} />
  </div>`;
}
