// The form for a new game: type and name. The rest is edited on the game's page.
import { api } from "../api.js";
import { SHAPES } from "../designer/definition.js";
import { html } from "../lib.js";
import { Form, filled } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { tell } from "../parts/toast.js";
import { address, go } from "../router.js";
import { useTitle } from "../title.js";
import { label, say } from "../words.js";
import { addressOf } from "./games.js";

/** A minimal valid config of each handler. */
const FIRST = /** @type {Record<string, any>} */ ({
  score_to_tier: { tiers: [], prize_groups: {} },
  collect_items: { drops: [{ type: "gift", prize_id: "", frequency: 1, max_catchable: 3 }], total_items: 20, interval_ms: 800 },
  lucky_item: { items: [{ item: "coin", weight: 1, quantity: 1, slot_index: -1 }] },
});

/** @param {{id: string}} props id: the campaign's */
export default function NewGame({ id }) {
  const { data, error, again } = useData(async (signal) => ({
    campaign: await api.get("/admin/campaigns/{id}", { path: { id }, signal }),
    handlers: (await api.get("/schemas/games.json", { signal })).reward_handlers,
  }), [id]);
  useTitle(say("game.new"));
  if (!data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const parts = Object.values(SHAPES).map(({ reward_handler }) => reward_handler);
  // Each handler of a plugin is a separate type.
  const shapes = [...Object.keys(SHAPES), ...data.handlers.filter((/** @type {string} */ name) => !parts.includes(name))];
  const schema = { type: "object", required: ["name", "shape"], properties: { name: { type: "string", minLength: 1, maxLength: 200 }, shape: { type: "string", enum: shapes } } };
  const save = async (/** @type {any} */ { name, shape }) => {
    const made = SHAPES[shape] ?? { reward_handler: shape, seed_generator: "none", validator: "basic" };
    const config = await api.get("/schemas/games/{name}.json", { path: { name: made.reward_handler } });
    const handler_config = FIRST[made.reward_handler] ?? filled(config, undefined, config);
    const game = await api.post("/admin/games", { body: { ...made, name, type: shape, campaign_id: id, handler_config, status: "GAME_STATUS_DRAFT" } });
    tell(say("campaign.copied", { name: game.name }));
    go(addressOf(game.id));
  };
  return html`<${Head} title=${say("game.new")} back=${{ href: address(`/campaigns/${encodeURIComponent(id)}`), text: data.campaign.name }} />
    <p class="under">${say("game.new_text")}</p>
    <div class="sheet"><${Form} schema=${schema} value=${{ name: "", shape: "spin_wheel" }} save=${save} word=${say("game.make")} widget=${(/** @type {string} */ name) => (name === "shape" ? Shape : null)} /></div>`;

  /** @param {any} props */
  function Shape({ value, change, named }) {
    return html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>${shapes.map((one) => html`<option value=${one}>${label(one)}</option>`)}</select>`;
  }
}
