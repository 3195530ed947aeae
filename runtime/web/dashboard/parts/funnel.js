// The funnel of a campaign or game, from views on.
import { html } from "../lib.js";
import { number, say } from "../words.js";

const STEPS = ["views", "starts", "plays", "wins", "claimed", "fulfilled"];

/** A formatted share, shorter than a probability. @param {number} part */
export const share = (part) => `${(part * 100).toLocaleString("en", { maximumFractionDigits: part < 0.01 ? 3 : 1 })}\u00a0%`;

/** Whether there is anything to show. @param {Record<string, number>} funnel */
export const hasSteps = (funnel) => STEPS.some((step) => funnel[step] > 0);

/** Each step with its share of the first, and the loss since the previous one. @param {{funnel: Record<string, number>}} props */
export function Steps({ funnel }) {
  const steps = STEPS.filter((step) => step !== "views" || funnel.views > 0);
  const most = Math.max(funnel[steps[0]], steps[0] === "starts" ? funnel.plays : 0, 1);
  return html`<ol class="funnel">${steps.map((step, nth) => {
    const [count, before] = [funnel[step], funnel[steps[nth - 1]] ?? 0];
    return html`<li key=${step}>
      <span>${say(`analytics.${step}`)}</span><progress max=${most} value=${Math.min(count, most)} aria-label=${say(`analytics.${step}`)}></progress>
      <b>${number(count)}</b><small class="quiet">${share(count / most)}</small>
      <small class="quiet">${before > count && html`<span class="unseen">${say("analytics.lost")} </span>−${share(1 - count / before)}`}</small></li>`;
  })}</ol>`;
}
