// The entry: restores the session, then renders the page of the address.
import { html, render, signal } from "./lib.js";
import { SignIn } from "./pages/sign_in.js";
import { confirm } from "./parts/dialog.js";
import { Loading } from "./parts/states.js";
import { complain } from "./parts/toast.js";
import { follow } from "./router.js";
import { begin, me, notice } from "./session.js";
import { dress, Shell } from "./shell.js";
import { say } from "./words.js";

const begun = signal(false);

function App() {
  if (!begun.value) {
    return html`<${Loading} />`;
  }
  // A change of user remounts the page, so that it shows no data of the previous user.
  return me.value ? html`<${Shell} key=${JSON.stringify([me.value.tenant_id, me.value.merchant_id, me.value.subject, me.value.roles])} />` : html`<${SignIn} />`;
}

dress();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
follow();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
/** @param {{who: string, tenant: string}} link @param {string} before */
const wanted = (link, before) => {
  begun.value = true; // The question is rendered before the shell or the sign-in page.
  const text = say("sign_in.link_text", link) + (before ? ` ${say("sign_in.link_before", { before })}` : "");
  return confirm({ title: say("sign_in.link_title", link), text, word: say("sign_in.link") });
};
const start = () => begin(wanted).finally(() => {
  begun.value = true;
  if (me.value && notice.value) {
    complain({ message: say(notice.value) });
    notice.value = "";
  }
});
// A sign-in link opened in an open tab does not reload the page.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#link=")) {
    start();
  }
});
start();

// Used by tests to show a form of any schema.
export { html, render } from "./lib.js";
export { Form } from "./parts/form.js";
