// One pack: its codes and their counts, the secret of its receipts, and what players redeemed.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { saved } from "../parts/download.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { PagedTable } from "../parts/paged_table.js";
import { useData } from "../parts/requests.js";
import { SecretField } from "../parts/secret.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { Id, When } from "../parts/values.js";
import { playerAddress } from "../pages/players.js";
import { Upload } from "../prizes/codes_upload.js";
import { address, go } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { number, say } from "../words.js";
import { Edit, useCampaigns } from "./choosing.js";
import { fields, giftText, PACK, sent } from "./packs.js";

const PATH = "/admin/packs/{id}";
const PART = 5000;

/** @param {{id: string}} props */
export default function Pack({ id }) {
  const campaigns = useCampaigns();
  const path = { id };
  const { data: pack, error, again, set } = useData((signal) => api.get(PATH, { path, signal }), [id]);
  const [shown, setShown] = useState("");
  const [secret, setSecret] = useState("");
  const [changes, setChanges] = useState(0);
  useTitle(pack?.name ?? "");
  if (!pack) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const open = pack.status !== "PACK_STATUS_ARCHIVED";
  const changed = () => {
    setChanges((count) => count + 1);
    return again();
  };
  const remove = async () => {
    if (await confirm({ title: say("packs.remove_title", pack), text: say("packs.remove_text"), word: say("packs.remove"), danger: true })) {
      const { archived } = await api.remove(PATH, { path });
      tell(say(archived ? "archived" : "packs.removed", { name: pack.name }));
      await (archived ? again() : go(address("/packs")));
    }
  };
  const rotate = async () => {
    const asked = pack.secret_set ? await confirm({ title: say("packs.rotate_title", pack), text: say("packs.rotate_text"), word: say("quests.new_secret") }) : true;
    if (asked) {
      const made = await api.post(`${PATH}/rotate-secret`, { path, body: {} });
      setSecret(made.secret);
      set({ ...made, secret: "" });
    }
  };
  const end = async () => {
    if (await confirm({ title: say("packs.end_title", pack), text: say("packs.end_text"), word: say("quests.end_old"), danger: true })) {
      set(await api.post(`${PATH}/rotate-secret`, { path, body: { end_previous: true } }));
      tell(say("quests.ended"));
    }
  };
  const tile = (/** @type {string} */ text, /** @type {string} */ value) => html`<div class="tile"><span>${text}</span><b>${value}</b></div>`;
  return html`<${Head} title=${pack.name} status=${pack.status} back=${{ href: address("/packs"), text: say("packs.title") }}>
      ${open && can("UpdatePack") && html`<button type="button" class="secondary outline" onClick=${() => setShown("edit")}>${say("campaign.edit")}</button>`}
      ${open && can("DeletePack") && html`<${Act} class="danger outline" act=${() => remove().catch(complain)}>${say("packs.remove")}<//>`}
    <//>
    <p class="under">${campaigns.name(pack.campaign_id)} · ${giftText(pack.gives)} · <${Id} value=${id} /></p>
    <div class="tiles">
      ${tile(say("packs.free"), number(pack.free))}${tile(say("packs.used"), number(pack.used))}${tile(say("packs.withdrawn"), number(pack.withdrawn))}
    </div>
    ${open && can("ImportPackCodes") && html`<${Section} title=${say("packs.codes")} acts=${html`
        ${can("GenerateCodes") && html`<button type="button" class="secondary outline" onClick=${() => setShown("generate")}>${say("packs.generate")}</button>`}
        ${pack.free > 0 && can("WithdrawPackCodes") && html`<button type="button" class="danger outline" onClick=${() => setShown("withdraw")}>${say("packs.withdraw")}</button>`}`}>
      <${Upload} path=${`${PATH}/codes`} id=${id} done=${changed} />
    <//>`}
    ${open && can("RotatePackSecret") && html`<${Section} title=${say("packs.from_receipts")} note=${pack.secret_set ? say("packs.secret_set", { count: pack.receipts }) : say("packs.no_secret")} acts=${html`
      <${Act} class="secondary outline" act=${() => rotate().catch(complain)}>${say(pack.secret_set ? "quests.new_secret" : "packs.new_secret")}<//>
      ${pack.secret_set && html`<${Act} class="secondary outline" act=${() => end().catch(complain)}>${say("quests.end_old")}<//>`}`} />`}
    <${Redemptions} path=${`${PATH}/redemptions`} id=${id} about=${changes} of="player" />
    ${shown === "edit" && html`<${Edit} title=${say("packs.edit")} path=${PATH} one=${pack} schema=${PACK} fields=${fields} sent=${sent} zone=${campaigns.zone(pack.campaign_id)} close=${() => setShown("")} saved=${set} />`}
    ${shown === "generate" && html`<${Generate} pack=${pack} close=${() => setShown("")} done=${changed} />`}
    ${shown === "withdraw" && html`<${Withdraw} id=${id} close=${() => setShown("")} done=${changed} />`}
    ${secret && html`<${Dialog} title=${say("quests.secret_title", pack)} close=${() => setSecret("")}>
      <p>${say("packs.secret_text")}</p><${SecretField} secret=${secret} />
      <footer><button type="button" class="secondary outline" onClick=${() => setSecret("")}>${say("close")}</button></footer>
    <//>`}`;
}

/** Generates codes and saves them as CSV: the service does not show them again. @param {{pack: any, close: () => void, done: () => any}} props */
function Generate({ pack, close, done }) {
  const [made, setMade] = useState(0);
  const schema = { type: "object", required: ["count"], properties: { count: { type: "integer", minimum: 1, maximum: 1000000, label: say("packs.codes"), help: say("packs.generate_help") } } };
  const save = async (/** @type {{count: number}} */ { count }) => {
    const codes = [];
    try {
      while (codes.length < count) {
        const part = await api.post(`${PATH}/codes/generate`, { path: { id: pack.id }, body: { count: Math.min(PART, count - codes.length) } });
        codes.push(...part.codes);
        setMade(codes.length);
      }
    } finally {
      // A refusal midway keeps the codes made so far.
      if (codes.length) {
        saved(`${pack.id}.csv`, new Blob([["code", ...codes, ""].join("\r\n")], { type: "text/csv" }));
        done();
      }
    }
    tell(say("packs.generated", { count: codes.length }));
    close();
  };
  return html`<${Dialog} title=${say("packs.generate")} close=${close}>
    <${Form} schema=${schema} value=${{ count: 1000 }} save=${save} word=${say("packs.generate")} cancel=${close}>
      ${made > 0 && html`<p role="status">${say("packs.generating", { count: made })}</p>`}
    <//>
  <//>`;
}

/** Withdraws codes, one per line. @param {{id: string, close: () => void, done: () => any}} props */
function Withdraw({ id, close, done }) {
  const schema = {
    type: "object", required: ["codes", "reason"],
    properties: { codes: { type: "string", format: "lines", minLength: 1, label: say("packs.codes"), help: say("packs.withdraw_help") }, reason: { type: "string", minLength: 1, maxLength: 1000 } },
  };
  const save = async (/** @type {{codes: string, reason: string}} */ { codes, reason }) => {
    const listed = codes.split("\n").map((one) => one.trim()).filter(Boolean);
    const { withdrawn, kept } = await api.post(`${PATH}/codes/withdraw`, { path: { id }, body: { codes: listed, reason } });
    tell([say("codes.withdrawn", { count: withdrawn }), kept ? say("packs.kept", { count: kept }) : ""].join(" "));
    done();
    close();
  };
  return html`<${Dialog} title=${say("packs.withdraw")} close=${close}>
    <${Form} schema=${schema} value=${{ codes: "", reason: "" }} save=${save} word=${say("packs.withdraw")} cancel=${close} />
  <//>`;
}

/**
 * Redeemed codes and receipts, of a pack or a player.
 * @param {{path: string, id: string, about: number, of: "player" | "pack"}} props of: what each row names
 */
export function Redemptions({ path, id, about, of }) {
  const columns = [
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.redeemed_at} />` },
    of === "player"
      ? { title: say("packs.player"), show: (/** @type {any} */ one) => html`<a class="long" href=${playerAddress(one.player_id)}>${one.player_id}</a>` }
      : { title: say("packs.pack"), show: (/** @type {any} */ one) => html`<a class="long" href=${address(`/packs/${encodeURIComponent(one.pack_id)}`)}>${one.pack_name}</a>` },
    { title: say("packs.gave"), show: (/** @type {any} */ one) => giftText(one.gave) },
    { title: say("packs.receipt"), show: (/** @type {any} */ one) => (one.receipt_id ? html`<code class="long">${one.receipt_id}</code>` : say("packs.a_code")) },
  ];
  return html`<${Section} title=${say("packs.redemptions")}>
    <${PagedTable} caption=${say("packs.redemptions")} columns=${columns} empty=${say("packs.no_redemptions")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get(path, { path: { id }, query, signal })} />
  <//>`;
}
