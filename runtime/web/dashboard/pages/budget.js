// A campaign's budget and its use. Informational only.
import { html } from "../lib.js";
import { Section } from "../parts/layout.js";
import { When } from "../parts/values.js";
import { money, say } from "../words.js";

const NEAR = 0.8;

/** The used share, as a badge. @param {{budget: any}} props */
export function Used({ budget: { amount, used } }) {
  const tone = used >= amount ? "bad" : used >= NEAR * amount ? "warn" : "quiet";
  return html`<span class="status" data-tone=${tone}>${say("budget.share", { share: `${Math.floor((used / amount) * 100)} %` })}</span>`;
}

/** @param {{budget: any}} props */
export function Budget({ budget }) {
  const { amount, currency, used, used_at: at } = budget;
  return html`<${Section} title=${say("budget.title")}>
    <p class="budget">${say("budget.used", { used: money(used, currency), amount: money(amount, currency) })} <${Used} budget=${budget} /></p>
    <p class="quiet">${say("budget.help")} ${at ? html`${say("budget.counted")} <${When} at=${at} />` : say("budget.not_counted")}</p>
  <//>`;
}

/** On Home: budgets almost used up, and prizes with low stock. @param {{budgets: any[], href: (id: string) => string | undefined}} props */
export const Budgets = ({ budgets, href }) => html`<h3>${say("budget.near")}</h3>
  <ul class="lines">${budgets.map((one) => html`<li key=${one.campaign_id}>
    <span>${href(one.campaign_id) ? html`<a href=${href(one.campaign_id)}>${one.name}</a>` : one.name}</span>
    <span class="quiet">${say("budget.used", { used: money(one.used, one.currency), amount: money(one.amount, one.currency) })} <${Used} budget=${one} /></span></li>`)}</ul>`;
