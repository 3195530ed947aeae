// One prize: its form, stock and status.
import { api } from "../api.js";
import { refuseStale } from "../contests/choosing.js";
import { html, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { differing } from "../parts/compared.js";
import { confirm } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { showSecret } from "../parts/secret.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { useUnsaved } from "../parts/unsaved.js";
import { Id } from "../parts/values.js";
import { address, go } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { label, number, say, state } from "../words.js";
import { Codes } from "./codes.js";
import { channelName, editable, kindName, schemaOf, sent, widget } from "./definition.js";
import { kindName as releaseName } from "./release.js";
import { Stock } from "./stock.js";

/** @param {{id: string}} props */
export default function Prize({ id }) {
  const { data: prize, error, again, set } = useData((signal) => api.get("/admin/prizes/{id}", { path: { id }, signal }), [id]);
  useTitle(prize?.name ?? "");
  if (!prize) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const archived = prize.status === "PRIZE_STATUS_ARCHIVED";
  const { total, remaining, awarded } = prize.stock;
  const remove = async () => {
    const yes = await confirm({
      title: say("prizes.remove_title", { name: prize.name }), text: say("prizes.remove_text", { count: awarded }), word: say("prizes.remove"), danger: true,
    });
    await (yes && doing(async () => {
      const { archived: kept } = await api.remove("/admin/prizes/{id}", { path: { id } });
      tell(say(kept ? "archived" : "prizes.removed", { name: prize.name }));
      await (kept ? again() : go(address("/prizes")));
    }));
  };
  const restore = () => doing(async () => set(await api.put("/admin/prizes/{id}", { path: { id }, body: { status: "PRIZE_STATUS_ACTIVE" } })));
  const tile = (/** @type {string} */ text, /** @type {string} */ value) => html`<div class="tile"><span>${text}</span><b>${value}</b></div>`;
  return html`<${Head} title=${prize.name} status=${prize.status} back=${{ href: address("/prizes"), text: say("prizes.title") }}>
      ${can("SearchRewards") && html`<a role="button" class="secondary outline" href=${address("/rewards", { prize_id: id })}>${say("prizes.rewards")}</a>`}
      ${archived && can("UpdatePrize") && html`<${Act} class="secondary outline" act=${restore}>${say("prizes.restore")}<//>`}
      ${!archived && can("DeletePrize") && html`<${Act} class="danger outline" act=${remove}>${say("prizes.remove")}<//>`}
    <//>
    <p class="under">${prize.type ? label(prize.type) : ""} <${Id} value=${id} /></p>
    <div class="tiles">
      ${tile(say("prizes.left"), total ? number(remaining) : say("unlimited"))}
      ${tile(say("prizes.given"), number(awarded))}
      ${tile(say("prizes.total"), total ? number(total) : say("unlimited"))}
    </div>
    <${Stock} key=${id} prize=${prize} moved=${again} />
    <${Section} title=${say("prizes.what")}>
      ${can("UpdatePrize") && !archived ? html`<${Edit} key=${id} prize=${prize} saved=${set} />` : html`<${Shown} prize=${prize} />`}
    <//>
    ${prize.fulfillment.channel === "voucher_code" && can("ListCodes") && html`<${Codes} key=${id} id=${id} left=${total ? remaining : null} />`}`;
}

/** Performs an action and shows a refusal. @param {() => Promise<any>} act */
async function doing(act) {
  try {
    await act();
  } catch (refused) {
    complain(refused);
  }
}

/** @param {{prize: any, saved: (prize: any) => void}} props */
function Edit({ prize, saved }) {
  // The form's initial value: a prize has no revision for an optimistic lock.
  const begun = useRef(editable(prize));
  const filled = useRef(begun.current);
  const [value, setValue] = useState(filled.current);
  const [mixed, setMixed] = useState({ now: false, times: 0 }); // Whether the saved prize contains concurrent changes.
  useUnsaved(differing(sent(filled.current), sent(value)).length > 0);
  const save = async (/** @type {any} */ typed) => {
    const now = editable(await api.get("/admin/prizes/{id}", { path: { id: prize.prize_id } }));
    setMixed({ ...mixed, now: mixed.now || differing(begun.current, now).length > 0 });
    refuseStale(begun, now);
    const [before, wanted] = [sent(filled.current), sent(typed)];
    const body = Object.fromEntries(differing(before, wanted).map((key) => [key, wanted[key]]));
    const made = await api.put("/admin/prizes/{id}", { path: { id: prize.prize_id }, body });
    begun.current = editable(made);
    filled.current = mixed.now ? begun.current : { ...typed, fulfillment: begun.current.fulfillment };
    setValue(filled.current);
    if (mixed.now) {
      setMixed({ now: false, times: mixed.times + 1 }); // Remounts the form with the other person's changes.
    }
    saved(made);
    tell(say("saved"));
    await showSecret(made.fulfillment.config, made.name);
  };
  return html`<div class="sheet"><${Form} key=${mixed.times} schema=${schemaOf(value)} value=${filled.current} save=${save} typed=${setValue} zone=${value.release.timezone || "UTC"} widget=${widget} word=${say("save")} /></div>`;
}

/** The details, for read-only roles. @param {{prize: any}} props */
function Shown({ prize: { value, currency, description, terms, image_url, campaign_id, constraints, fulfillment, expires_after_days, claim_fields, release } }) {
  const row = (/** @type {string} */ name, /** @type {any} */ shown) => html`<dt>${label(name)}</dt><dd>${shown}</dd>`;
  const most = (/** @type {number} */ count) => (count ? number(count) : say("unlimited"));
  return html`<dl class="details">
    ${row("value", `${number(value)} ${currency}`)}
    ${row("description", description || say("none"))}
    ${row("terms", terms || say("none"))}
    ${row("image_url", image_url || say("none"))}
    ${row("campaign_id", campaign_id || say("prizes.every_campaign"))}
    ${row("max_per_user", most(constraints.max_per_user))}
    ${row("max_per_day", most(constraints.max_per_day))}
    ${row("redemption_mode", state(fulfillment.redemption_mode))}
    ${row("channel", channelName(fulfillment.channel))}
    ${claim_fields.length > 0 && row("claim_fields", html`<ul class="named">${claim_fields.map((/** @type {any} */ one) => html`<li>${one.label} (${kindName(one.kind)})</li>`)}</ul>`)}
    ${release && row("release", releaseName(release.kind))}
    ${row("expires_after_days", expires_after_days ? number(expires_after_days) : say("prizes.never"))}
  </dl>`;
}
