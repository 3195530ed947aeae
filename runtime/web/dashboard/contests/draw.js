// One prize draw: its steps (close, draw, award), its winners, and its evidence.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { playerAddress } from "../pages/players.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { PagedTable } from "../parts/paged_table.js";
import { loadById, useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { Id, When } from "../parts/values.js";
import { address, go } from "../router.js";
import { can, me } from "../session.js";
import { useTitle } from "../title.js";
import { number, say, state } from "../words.js";
import { useCampaigns } from "./choosing.js";
import { DrawForm } from "./draws.js";

const PATH = "/admin/draws/{id}";
const PART = 3000;
const REASON = { type: "string", format: "lines", minLength: 1, maxLength: 500 };

/** @param {{id: string}} props */
export default function Draw({ id }) {
  const path = { id };
  const campaigns = useCampaigns();
  const { data: draw, error, again, set } = useData((signal) => api.get(PATH, { path, signal }), [id]);
  const prizes = useData((signal) => loadById("/admin/prizes", signal), []);
  const [shown, setShown] = useState(/** @type {{what: string, one?: any}} */ ({ what: "" }));
  const [changes, setChanges] = useState(0);
  useTitle(draw?.name ?? "");
  if (!draw) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const status = draw.status.replace("DRAW_STATUS_", "").toLowerCase();
  const zone = campaigns.zone(draw.campaign_id);
  const prizeOf = (/** @type {string} */ one) => prizes.data?.get(one)?.name ?? one;
  const units = draw.prizes.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, 0);
  const changed = (/** @type {any} */ now) => {
    set(now);
    setChanges((count) => count + 1);
  };
  const step = async (/** @type {string} */ name, body = {}) => {
    changed(await api.post(`${PATH}/${name}`, { path, body }));
    tell(say(`draw.${name}_done`, { name: draw.name }));
  };
  const ask = async (/** @type {string} */ name) => {
    if (await confirm({ title: say(`draw.${name}_title`, draw), text: say(`draw.${name}_text`, { count: units }), word: say(`draw.${name}`) })) {
      await step(name);
    }
  };
  const cancel = async () => {
    if (await confirm({ title: say("draw.cancel_title", draw), text: say("draw.cancel_text"), word: say("draw.cancel"), danger: true })) {
      changed(await api.put(PATH, { path, body: { status: "DRAW_STATUS_CANCELLED" } }));
    }
  };
  const remove = async () => {
    if (await confirm({ title: say("draw.remove_title", draw), text: say("draw.remove_text"), word: say("draw.remove"), danger: true })) {
      await api.remove(PATH, { path });
      go(address("/draws"));
    }
  };
  const { kind, source, at, value, commitment, round } = draw.randomness;
  const act = (/** @type {string} */ name, /** @type {() => Promise<any>} */ does, look = "") => html`<${Act} class=${look} act=${() => does().catch(complain)}>${say(`draw.${name}`)}<//>`;
  const opens = (/** @type {string} */ what, /** @type {string} */ word, look = "") => html`<button type="button" class=${look} onClick=${() => setShown({ what })}>${word}</button>`;
  const columns = [
    { title: say("board.rank"), number: true, show: (/** @type {any} */ one) => number(one.rank) },
    { title: say("packs.player"), show: (/** @type {any} */ one) => (can("InspectPlayer") ? html`<a class="name" href=${playerAddress(one.player_id)}>${one.display_name || one.player_id}</a>` : html`<span class="name">${one.display_name || one.player_id}</span>`) },
    { title: say("draw.ticket"), number: true, show: (/** @type {any} */ one) => number(Number(one.ticket)) },
    { title: say("field.prize_id"), show: (/** @type {any} */ one) => (one.prize_id ? prizeOf(one.prize_id) : say("none")) },
    { title: say("campaigns.status"), show: (/** @type {any} */ one) => (one.reason ? state(one.reason) : say("draw.awarded")) },
    ...(["drawn", "confirmed"].includes(status) && can("ReplaceWinner") ? [{
      title: say("list.acts"), acts: true,
      show: (/** @type {any} */ one) => one.prize_id && one.reason !== "REPLACED" && html`<button type="button" class="secondary outline small" aria-label=${`${say("draw.replace")}: ${one.rank}`} onClick=${() => setShown({ what: "replace", one })}>${say("draw.replace")}</button>`,
    }] : []),
  ];
  const close = () => setShown({ what: "" });
  const given = kind !== "INTERNAL";
  return html`<${Head} title=${draw.name} status=${draw.status} back=${{ href: address("/draws"), text: say("draws.title") }}>
      ${status === "open" && can("UpdateDraw") && opens("edit", say("campaign.edit"), "secondary outline")}
      ${status === "open" && draw.tickets.imported && can("SetDrawTickets") && opens("import", say("draw.import"), "secondary outline")}
      ${status === "open" && can("CloseDraw") && act("close", () => ask("close"))}
      ${status === "closed" && can("DrawWinners") && (given ? opens("draw", say("draw.draw")) : act("draw", () => ask("draw")))}
      ${status === "drawn" && can("ConfirmDraw") && act("confirm", () => ask("confirm"))}
      ${["closed", "drawn"].includes(status) && can("UpdateDraw") && act("cancel", cancel, "danger outline")}
      ${!draw.closed_at && can("DeleteDraw") && act("remove", remove, "danger outline")}
    <//>
    <p class="under">${campaigns.name(draw.campaign_id)} · <${Id} value=${id} /></p>
    <ol class="steps">${["open", "closed", "drawn", "confirmed"].map((one) => html`<li key=${one} aria-current=${one === status ? "step" : undefined}>${state(one)}</li>`)}</ol>
    <div class="tiles">
      <div class="tile"><span>${say("draws.tickets")}</span><b>${draw.closed_at ? number(Number(draw.ticket_count)) : say("none")}</b></div>
      <div class="tile"><span>${say("draw.holders")}</span><b>${draw.closed_at ? number(draw.holder_count) : say("none")}</b></div>
      <div class="tile"><span>${say("field.prizes")}</span><b>${number(units)}</b></div>
    </div>
    ${draw.drawn_at > 0 && html`<${Section} title=${say("draw.winners")} note=${say(status === "confirmed" ? "board.kept" : "draw.not_awarded")}>
      <${PagedTable} caption=${say("draw.winners")} columns=${columns} empty=${say("draw.no_winners")} about=${changes}
        load=${async (/** @type {any} */ query, /** @type {AbortSignal} */ signal) => {
          const { items, pagination } = await api.get(`${PATH}/winners`, { path, query, signal });
          return { items: items.map((/** @type {any} */ one) => ({ ...one, id: String(one.rank) })), pagination };
        }} />
    <//>`}
    <${Section} title=${say("campaign.details")}>
      <dl class="details">
        <dt>${say("draws.of")}</dt><dd>${draw.tickets.currency ? say("draw.of_currency", draw.tickets) : say(`draws.of.${["ranking", "entries", "imported"].find((one) => draw.tickets[one])}`)}</dd>
        <dt>${say("field.prizes")}</dt><dd><ul class="lines">${draw.prizes.map((/** @type {any} */ one) => html`<li key=${one.prize_id}><span>${prizeOf(one.prize_id)}</span><span class="quiet">${number(one.count)}</span></li>`)}</ul></dd>
        <dt>${say("draws.alternates")}</dt><dd>${number(draw.alternates)}</dd>
        <dt>${say("draws.closes_at")}</dt><dd>${draw.closed_at || draw.closes_at ? html`<${When} at=${draw.closed_at || draw.closes_at} zone=${zone} />` : say("draws.by_hand")}</dd>
        <dt>${say("draws.kind")}</dt><dd>${say(`draws.kind.${kind.toLowerCase()}`)}${source && `: ${source}`}${round > 0 && `, ${say("draw.round", { round })}`}</dd>
        ${at > 0 && html`<dt>${say("draws.at")}</dt><dd><${When} at=${at} zone=${zone} /></dd>`}
        ${commitment && html`<dt>${say("draw.commitment")}</dt><dd><code class="long">${commitment}</code></dd>`}
        ${value && html`<dt>${say("draw.value")}</dt><dd><code class="long">${value}</code></dd>`}
        ${draw.tickets_root && html`<dt>${say("draw.root")}</dt><dd><code class="long">${draw.tickets_root}</code></dd>`}
        ${draw.result_hash && html`<dt>${say("draw.result_hash")}</dt><dd><code class="long">${draw.result_hash}</code></dd>`}
        ${draw.closed_at > 0 && evidence(id) && html`<dt>${say("draw.evidence")}</dt><dd><a href=${evidence(id)} download>${say("draw.download")}</a> <small>${say("draw.evidence_text")}</small></dd>`}
      </dl>
    <//>
    ${shown.what === "edit" && html`<${DrawForm} draw=${draw} zone=${campaigns.zone} close=${close} done=${(/** @type {any} */ now) => { changed(now); close(); }} />`}
    ${shown.what === "import" && html`<${TicketList} id=${id} close=${close} />`}
    ${shown.what === "draw" && html`<${Value} draw=${draw} close=${close} save=${async (/** @type {any} */ body) => { await step("draw", body); close(); }} />`}
    ${shown.what === "replace" && html`<${Dialog} title=${say("draw.replace_title", { rank: shown.one.rank })} close=${close}>
      <p>${say("draw.replace_text")}</p>
      <${Form} schema=${{ type: "object", required: ["reason"], properties: { reason: REASON } }} value=${{ reason: "" }} word=${say("draw.replace")} cancel=${close}
        save=${async (/** @type {any} */ body) => { await step("replace", { rank: shown.one.rank, ...body }); close(); }} />
    <//>`}`;
}

/** The public address of the evidence file; "" if the players' address is unknown. @param {string} id */
function evidence(id) {
  const { consumer_url: base, tenant_id: tenant, default_tenant: known } = /** @type {any} */ (me.value);
  return base && `${base}/api/v1/draws/${encodeURIComponent(id)}/file${tenant === known ? "" : `?tenant_id=${encodeURIComponent(tenant)}`}`;
}

/** Imports players and their tickets, in parts. @param {{id: string, close: () => void}} props */
function TicketList({ id, close }) {
  const [text, setText] = useState("");
  const schema = { type: "object", required: ["list"], properties: { list: { type: "string", format: "lines", minLength: 1, label: say("draw.list"), help: say("draw.list_help") } } };
  const save = async (/** @type {{list: string}} */ { list }) => {
    const holders = holdersOf(list);
    let size;
    for (let start = 0; start < holders.length; start += PART) {
      size = await api.post(`${PATH}/tickets`, { path: { id }, body: { holders: holders.slice(start, start + PART) } });
    }
    tell(say("draw.imported", { tickets: number(Number(size?.ticket_count ?? 0)), holders: number(size?.holder_count ?? 0) }));
    close();
  };
  const read = async (/** @type {any} */ { target }) => {
    const [file] = target.files;
    if (file) setText(await file.text());
    target.value = ""; // The same file, corrected, is another choice.
  };
  return html`<${Dialog} title=${say("draw.import")} close=${close}>
    <p>${say("draw.import_text")}</p>
    <label>${say("draw.list_file")}<input type="file" accept=".csv,.txt,text/csv,text/plain" onChange=${read} /></label>
    <${Form} key=${text} schema=${schema} value=${{ list: text }} save=${save} word=${say("draw.import")} cancel=${close} />
  <//>`;
}

/** The lines of a list. Throws at the first wrong one. @param {string} list */
function holdersOf(list) {
  const lines = list.replace(/^\ufeff/, "").split("\n").map((one) => one.trim());
  const seen = new Set();
  return lines.flatMap((one, index) => {
    if (!one || (index === 0 && one === "player_id,tickets")) {
      return [];
    }
    const [, player, tickets] = /^"?([^",;\t]+)"?\s*[,;\t]\s*"?(\d+)"?$/.exec(one) ?? [];
    const player_id = player?.trim();
    if (!player_id || seen.has(player_id)) {
      throw new Error(say("draw.list_wrong", { line: index + 1 }));
    }
    seen.add(player_id);
    return [{ player_id, tickets: Number(tickets) }];
  });
}

/** Takes the random value of a draw. @param {{draw: any, close: () => void, save: (body: any) => Promise<any>}} props */
function Value({ draw, close, save }) {
  const { kind, source, round } = draw.randomness;
  const help = kind === "DECLARED" ? source : say("draw.signature", { round });
  const schema = { type: "object", required: ["value"], properties: { value: { type: "string", minLength: 1, maxLength: 1000, label: say("draw.value"), help } } };
  return html`<${Dialog} title=${say("draw.draw_title", draw)} close=${close}>
    <p>${say("draw.draw_text")}</p>
    <${Form} schema=${schema} value=${{ value: "" }} save=${save} word=${say("draw.draw")} cancel=${close} />
  <//>`;
}
