// Signing in. It stands where the page would: who signs in again goes on at the same address.
import { html, useEffect, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { Questions } from "../parts/dialog.js";
import { complain, Toasts } from "../parts/toast.js";
import { hasIssuer, notice, toIssuer, withToken } from "../session.js";
import { say } from "../words.js";

export function SignIn() {
  const [issuer, setIssuer] = useState(false);
  const [token, setToken] = useState("");
  useEffect(() => {
    document.title = `${say("sign_in.title")} · ${say("product")}`;
    hasIssuer().then(setIssuer, () => {});
  }, []);
  /** @param {Event} event */
  const enter = async (event) => {
    event.preventDefault();
    await withToken(token);
  };
  return html`<main class="sign-in">
    <article>
      <h1>${say("product")}</h1>
      ${notice.value && html`<p class="notice" role="alert">${say(notice.value)}</p>`}
      ${issuer && html`<${Act} act=${() => toIssuer().catch(complain)}>${say("sign_in.issuer")}<//>`}
      <p class="quiet">${say("sign_in.by_link")}</p>
      <details>
        <summary>${say("sign_in.have_token")}</summary>
        <form onSubmit=${enter}>
          <label>${say("sign_in.token")}<input type="password" required autocomplete="off" value=${token} onInput=${(/** @type {any} */ typed) => setToken(typed.target.value)} /></label>
          <button type="submit" class="outline">${say("sign_in.with_token")}</button>
        </form>
      </details>
    </article>
    <${Toasts} />
    <${Questions} />
  </main>`;
}
