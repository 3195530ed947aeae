// A generated secret, shown once.
import { html, signal } from "../lib.js";
import { say } from "../words.js";
import { Dialog } from "./dialog.js";
import { Copy } from "./embed.js";

/** @type {import("@preact/signals").Signal<{name: string, secret: string, close: () => void} | null>} */
const shown = signal(null);

/** Shows the secret that an answer's config has, if any, until it is closed. @param {any} config @param {string} name its owner */
export async function showSecret(config, name) {
  const secret = config?.secret_once;
  await (secret && new Promise((resolve) => {
    shown.value = { name, secret, close: () => resolve(shown.value = null) };
  }));
}

/** To be copied. @param {{secret: string}} props */
export const SecretField = ({ secret }) => html`<div class="row"><input class="code" readonly aria-label=${say("quests.secret")} value=${secret} onFocus=${(/** @type {any} */ event) => event.target.select()} /><${Copy} text=${secret} what=${say("quests.secret")} /></div>`;

/** Where it is shown. */
export function Secrets() {
  const one = shown.value;
  return one && html`<${Dialog} title=${say("quests.secret_title", { name: one.name })} close=${one.close}>
    <p>${say("secret.text")}</p>
    <${SecretField} secret=${one.secret} />
    <footer><button type="button" class="secondary outline" onClick=${one.close}>${say("close")}</button></footer>
  <//>`;
}
