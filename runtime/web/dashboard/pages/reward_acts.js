// The buttons of a reward: its actions and its claim form.
import { html } from "../lib.js";
import { Act } from "../parts/button.js";
import { can } from "../session.js";
import { say } from "../words.js";
import { Answers } from "./reward_answers.js";
import { Code } from "./reward_code.js";
import { MOVES, moveReward, verbOf } from "./reward_moves.js";

/** @param {{reward: any, changed: () => any}} props */
export function RewardActs({ reward, changed }) {
  const moves = Object.entries(MOVES).filter(([, { from, needs }]) => from.includes(reward.status) && can(needs));
  return html`<div class="acts">
    <${Code} reward=${reward} />
    ${moves.map(([move]) => html`<${Act} class=${`${move === "revoke" ? "danger" : "secondary"} outline small`} act=${() => moveReward(move, reward, changed)}>${say(`rewards.${verbOf(move, reward)}`)}<//>`)}
    <${Answers} reward=${reward} />
  </div>`;
}
