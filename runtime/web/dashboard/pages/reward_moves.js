// What staff does to rewards and deliveries: each asked for, done, and said.
import { api, newKey } from "../api.js";
import { confirm } from "../parts/dialog.js";
import { complain, tell } from "../parts/toast.js";
import { say, sentence } from "../words.js";

const named = (/** @type {string[]} */ ...words) => words.map((word) => `REWARD_STATUS_${word}`);

/** Which rewards a move applies to, and the operation that does it. @type {Record<string, {from: string[], needs: string}>} */
export const MOVES = {
  fulfill: { from: named("WON", "CLAIMED", "FULFILLING", "FAILED"), needs: "FulfillReward" },
  revoke: { from: named("WON", "CLAIMED", "FULFILLING", "FULFILLED", "FAILED"), needs: "RevokeReward" },
};

/** What a move does to this reward, by its word: to fulfill a voucher hands over a code. @param {string} move @param {any} reward */
export const verbOf = (move, reward) => (move === "fulfill" && reward.channel === "voucher_code" ? "hand_over" : move);

/** @param {string} move @param {any} reward @param {() => any} changed */
export async function moveReward(move, reward, changed) {
  const key = newKey();
  const verb = verbOf(move, reward);
  const text = move === "fulfill" && reward.status === "REWARD_STATUS_FULFILLING" ? "rewards.fulfill_under_way" : `rewards.${verb}_text`;
  const yes = await confirm({
    title: say(`rewards.${verb}_title`, { count: 1 }), text: say(text, { count: 1 }), items: [reward.name], word: say(`rewards.${verb}`), danger: move === "revoke",
  });
  if (yes) {
    try {
      await api.post(`/admin/rewards/{id}/${move}`, { path: { id: reward.id }, key });
      tell(say(`rewards.${verb}_done`, { count: 1 }));
      await changed();
    } catch (refused) {
      complain(refused);
    }
  }
}

const UNDER_WAY = ["TASK_STATUS_PENDING", "TASK_STATUS_DELIVERING"];
const LOOK_MS = 500;
const FEW = 10;
const LOOKS = 40; // An attempt ends within 15 seconds.

/** The delivery of a reward once its attempt is over; null: it goes on for longer. @param {string} reward_id */
async function attempted(reward_id) {
  for (let look = 0; look < LOOKS; look++) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    const { delivery } = await api.get("/admin/rewards/{id}", { path: { id: reward_id } });
    if (!UNDER_WAY.includes(delivery.task.status)) {
      return delivery.task;
    }
  }
  return null;
}

/** @param {any} task */
const failed = (task) => ["TASK_STATUS_RETRY", "TASK_STATUS_DEAD"].includes(task?.status);

/** Retries a delivery, and says how that ended. @param {any} task @param {() => any} changed */
export async function retryTask(task, changed) {
  if (await confirm({ title: say("rewards.retry_title", { count: 1 }), text: say("rewards.retry_text", { count: 1 }), word: say("rewards.retry") })) {
    try {
      await api.post("/admin/fulfillment/tasks/{id}/retry", { path: { id: task.id } });
      const now = await attempted(task.reward_id);
      if (failed(now)) {
        complain({ message: say("rewards.retry_failed", { error: now.last_error }) });
      } else {
        tell(say(now?.status === "TASK_STATUS_DELIVERED" ? "rewards.retry_delivered" : "rewards.retry_done", { count: 1 }));
      }
      await changed();
    } catch (refused) {
      complain(refused);
    }
  }
}

/**
 * Moves several, and says of those that were not why.
 * @param {string} move fulfill, revoke or retry
 * @param {any[]} rewards
 * @returns {Promise<Record<string, string> | null>} why not, by reward; null: nothing was asked of the service
 */
export async function moveRewards(move, rewards) {
  const key = newKey();
  const count = rewards.length;
  const yes = await confirm({
    title: say(`rewards.${move}_title`, { count }), text: say(`rewards.${move}_text`, { count }), items: rewards.slice(0, 5).map(({ name }) => name),
    word: say(`rewards.${move}`), danger: move === "revoke",
  });
  if (!yes) {
    return null;
  }
  try {
    const { results } = await api.post("/admin/rewards/bulk", { body: { act: `BULK_ACT_${move.toUpperCase()}`, ids: rewards.map(({ id }) => id) }, key });
    const moved = results.filter((/** @type {any} */ one) => one.ok);
    // Of more than a few, the list shows later how each ended.
    const ended = move === "retry" && moved.length <= FEW ? await Promise.all(moved.map(async (/** @type {any} */ { id }) => ({ id, task: await attempted(id) }))) : [];
    const again = ended.filter(({ task }) => failed(task)).map(({ id, task }) => ({ id, message: say("rewards.retry_failed", { error: task.last_error }) }));
    if (moved.length > again.length) {
      tell(say(`rewards.${move}_done`, { count: moved.length - again.length }));
    }
    const refused = [...results.filter((/** @type {any} */ one) => !one.ok), ...again];
    if (refused.length) {
      complain({ message: say("rewards.not_done", { count: refused.length }) });
    }
    return Object.fromEntries(refused.map((/** @type {any} */ one) => [one.id, sentence(one.message)]));
  } catch (refused) {
    complain(refused);
    return null;
  }
}
