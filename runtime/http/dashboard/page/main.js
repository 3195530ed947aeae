// The beginning: who it is, and then the page of the address.
import { html, render, signal } from "./lib.js";
import { Loading } from "./parts/bits.js";
import { SignIn } from "./pages/sign_in.js";
import { follow } from "./router.js";
import { begin, me } from "./session.js";
import { dress, Shell } from "./shell.js";

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
const start = () => begin().finally(() => {
  begun.value = true;
});
// A link that is opened where the page is open already loads nothing anew.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#link=")) {
    start();
  }
});
start();
