// The beginning: who it is, and then the page of the address.
import { html, render, signal } from "./lib.js";
import { Loading } from "./parts/bits.js";
import { confirm } from "./parts/dialog.js";
import { SignIn } from "./pages/sign_in.js";
import { follow } from "./router.js";
import { begin, me } from "./session.js";
import { dress, Shell } from "./shell.js";
import { say } from "./words.js";

const begun = signal(false);

function App() {
  if (!begun.value) {
    return html`<${Loading} />`;
  }
  return me.value ? html`<${Shell} />` : html`<${SignIn} />`;
}

dress();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
follow();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
/** @param {{who: string, tenant: string}} link @param {string} before */
const wanted = (link, before) => {
  begun.value = true; // The question stands before the page of who is signed in, or of how to.
  const text = say("sign_in.link_text", link) + (before ? ` ${say("sign_in.link_before", { before })}` : "");
  return confirm({ title: say("sign_in.link_title", link), text, word: say("sign_in.link") });
};
const start = () => begin(wanted).finally(() => {
  begun.value = true;
});
// A link that is opened where the page is open already loads nothing anew.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#link=")) {
    start();
  }
});
start();
