// A game's revisions: compare with the current one, and restore.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Section } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { complain, tell } from "../parts/toast.js";
import { When } from "../parts/values.js";
import { askedBeforeLeaving } from "../router.js";
import { can } from "../session.js";
import { say } from "../words.js";
import { whole } from "./definition.js";
import { Differences, differences } from "./differences.js";

/** @param {{game: any, zone: string, restored: (game: any) => void}} props */
export function Revisions({ game, zone, restored }) {
  const [compared, setCompared] = useState(/** @type {any} */ (null));
  const restore = async (/** @type {any} */ one) => {
    const changed = differences(whole(game), whole(one.game));
    const yes = await confirm({
      title: say("revisions.restore_title", { revision: one.revision }),
      text: `${say("revisions.restore_text", { count: changed.length, revision: game.revision + 1 })} ${askedBeforeLeaving()}`,
      items: changed.slice(0, 6).map(({ id }) => id),
      word: say("revisions.restore"),
    });
    if (yes) {
      try {
        restored(await api.put("/admin/games/{id}", { path: { id: game.id }, body: { ...whole(one.game), revision: game.revision } }));
        tell(say("revisions.restored", { revision: one.revision }));
      } catch (refused) {
        complain(refused);
      }
    }
  };
  const columns = [
    { title: say("game.revision"), narrow: true, show: (/** @type {any} */ one) => `${one.revision}` },
    { title: say("revisions.made"), show: (/** @type {any} */ one) => html`<${When} at=${Number(one.made_at)} zone=${zone} />` },
    { title: say("revisions.by"), show: (/** @type {any} */ one) => html`<span class="name">${one.made_by}</span>` },
    {
      title: say("list.acts"), narrow: true, acts: true,
      show: (/** @type {any} */ one) => one.revision !== game.revision && html`<div class="acts">
        <button type="button" class="secondary outline small" onClick=${() => setCompared(one)}>${say("revisions.compare")}</button>
        ${can("UpdateGame") && html`<${Act} class="secondary outline small" act=${() => restore(one)}>${say("revisions.restore")}<//>`}</div>`,
    },
  ];
  const load = async (/** @type {any} */ query, /** @type {AbortSignal} */ signal) => {
    const page = await api.get("/admin/games/{id}/revisions", { path: { id: game.id }, query, signal });
    return { ...page, items: page.items.map((/** @type {any} */ one) => ({ ...one, id: `${one.revision}` })) };
  };
  return html`<${Section} title=${say("revisions.title")}>
    <${List} key=${game.revision} caption=${say("revisions.title")} columns=${columns} filters=${[]} load=${load} empty=${{ title: say("revisions.title") }} />
    ${compared && html`<${Dialog} wide title=${say("revisions.compare_title", { revision: compared.revision })} close=${() => setCompared(null)}>
      <${Differences} caption=${say("revisions.title")} items=${differences(whole(compared.game), whole(game))}
        left=${say("revisions.then", { revision: compared.revision })} right=${say("revisions.now", { revision: game.revision })} />
    <//>`}
  <//>`;
}
