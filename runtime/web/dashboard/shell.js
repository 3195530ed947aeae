// The frame of every page: the user, navigation and theme.
import { html, signal, useEffect, useState } from "./lib.js";
import { GROUPS, ROUTES } from "./pages.js";
import { Questions } from "./parts/dialog.js";
import { Secrets } from "./parts/secret.js";
import { Empty, Loading, Problem } from "./parts/states.js";
import { Toasts } from "./parts/toast.js";
import { address, match, place } from "./router.js";
import { can, me, signOut } from "./session.js";
import { exact, switchTimes } from "./times.js";
import { useTitle } from "./title.js";
import { label, say } from "./words.js";

const THEME = "tombola.theme";
const WARNED_MS = 10 * 60_000;
const LATER_MS = 2 ** 31 - 1; // The maximum of browser timers.
const ICONS = /** @type {Record<string, string>} */ ({
  home: "M3 11l9-8 9 8M5 9.5V21h5v-6h4v6h5V9.5",
  flag: "M5 21V4m0 1h13l-3 4 3 4H5",
  wheel: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 3v18M4.2 7.5l15.6 9M4.2 16.5l15.6-9",
  cup: "M4 8h12v7a5 5 0 01-5 5H9a5 5 0 01-5-5zM16 10h2a3 3 0 010 6h-2M8 3v2M12 3v2",
  gift: "M4 11h16v10H4zM3 7h18v4H3zM12 7v14M12 7S7 7 7.5 4.5 12 4 12 7s0-5 4-2.5S12 7 12 7",
  people: "M9 11a4 4 0 100-8 4 4 0 000 8zM2 21c0-4 3-7 7-7s7 3 7 7M16 3a4 4 0 010 8M18 14c3 1 4 4 4 7",
  truck: "M2 6h12v11H2zM14 10h4l4 4v3h-8M7 20a2 2 0 100-4 2 2 0 000 4zM18 20a2 2 0 100-4 2 2 0 000 4z",
  plug: "M9 3v5M15 3v5M6 8h12v4a6 6 0 01-12 0zM12 18v3",
  chart: "M4 20V4M4 20h17M8 16v-5M13 16V7M18 16v-8",
  list: "M8 6h13M8 12h13M8 18h13M3 6h.01M3 12h.01M3 18h.01",
  key: "M14 10a5 5 0 10-4 4l2 2h2v2h2v2h4v-4l-6-6",
  star: "M12 3l2.8 5.7 6.2.9-4.5 4.4 1.1 6.2-5.6-2.9-5.6 2.9 1.1-6.2L3 9.6l6.2-.9z",
  check: "M4 4h16v16H4zM8 12l3 3 5-6",
  scales: "M12 3v18M7 21h10M4 7h16M4 7l-2 6a3 3 0 006 0zM20 7l-2 6a3 3 0 006 0z",
  trophy: "M7 4h10v6a5 5 0 01-10 0zM7 6H3c0 4 2 5 4 5M17 6h4c0 4-2 5-4 5M12 15v4M8 21h8",
});

const theme = signal(localStorage.getItem(THEME) ?? "");
const open = signal(false);

/** Applies the stored theme, or the browser's preference. */
export function dress() {
  document.documentElement.dataset.theme = theme.value || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function switchTheme() {
  theme.value = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem(THEME, theme.value);
  dress();
}

/** @param {{name: string}} props */
const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name] ?? ICONS.list} /></svg>`;

/** Closes the open menu, which covers the page, when the focus leaves it. @param {FocusEvent} event */
function left({ currentTarget, relatedTarget: next }) {
  if (next instanceof Element && !next.matches(".menu") && !(/** @type {Element} */ (currentTarget).contains(next))) {
    open.value = false;
  }
}

/** @param {KeyboardEvent} event */
function closed({ key }) {
  if (key === "Escape" && open.value) {
    open.value = false;
    /** @type {HTMLElement | null} */ (document.querySelector(".menu"))?.focus();
  }
}

/** The page of a signed-in user. */
export function Shell() {
  const { path } = place.value;
  useEffect(() => {
    open.value = false;
  }, [path]);
  const shown = ROUTES.filter(({ nav, needs }) => nav && (!needs || can(needs)));
  return html`<div class="shell" data-open=${open.value}>
    <a class="skip" href="#content">${say("skip")}</a>
    <header class="bar">
      <button type="button" class="plain menu" aria-expanded=${open.value} aria-controls="nav" aria-label=${say("menu")} onClick=${() => { open.value = !open.value; }}><${Icon} name="list" /></button>
      <a class="brand" href=${address("/")}>${say("product")}</a>
      <span class="tenant" title=${me.value?.tenant_id}>${me.value?.tenant_name || me.value?.tenant_id}</span>
      <${Who} />
    </header>
    <nav id="nav" class="side" aria-label=${say("main")} onFocusOut=${left} onKeyDown=${closed}><div>
      ${GROUPS.map((group) => ({ group, routes: shown.filter((one) => one.group === group) })).filter(({ routes }) => routes.length).map(({ group, routes }) => html`
        <p id=${`nav-${group}`}>${say(`nav.group_${group}`)}</p>
        <ul aria-labelledby=${`nav-${group}`}>${routes.map(({ path: to, nav, icon }) => html`<li><a href=${address(to)} aria-current=${isIn(path, to) ? "page" : undefined}><${Icon} name=${icon ?? "list"} />${say(nav ?? "")}</a></li>`)}</ul>`)}
    </div></nav>
    <main id="content" tabindex="-1"><${Ending} /><${Page} key=${path} /></main>
    <${Questions} />
    <${Secrets} />
    <${Toasts} />
  </div>`;
}

/** @param {string} path @param {string} to */
const isIn = (path, to) => path === to || (to !== "/" && path.startsWith(`${to}/`));

function Who() {
  const who = me.value;
  return html`<div class="who">
    <span class="who-name"><b>${who?.subject}</b> <span class="quiet">${who?.merchant_id && `${who.merchant_id} · `}${who?.roles.map(label).join(", ")}</span></span>
    <button type="button" class="plain" aria-pressed=${exact.value} aria-label=${say("time.exact")} title=${say("time.exact")} onClick=${switchTimes}><span aria-hidden="true">◷</span></button>
    <button type="button" class="plain" aria-label=${say("theme.switch")} title=${say("theme.switch")} onClick=${switchTheme}><span aria-hidden="true">◐</span></button>
    <button type="button" class="secondary outline small" onClick=${signOut}>${say("sign_in.sign_out")}</button>
  </div>`;
}

/** Warns some minutes before the session expires, so that no input is lost. */
function Ending() {
  const [soon, setSoon] = useState(false);
  const ends = me.value?.expires_at ?? 0;
  useEffect(() => {
    setSoon(false);
    const left = ends * 1000 - Date.now() - WARNED_MS;
    const timer = left < LATER_MS ? setTimeout(() => setSoon(true), left) : 0;
    return () => clearTimeout(timer);
  }, [ends]);
  return soon && html`<p class="notice ending" role="alert">${say("sign_in.ends_soon")}</p>`;
}

/** The page of the current route. */
function Page() {
  const { path, query } = place.value;
  const [loaded, setLoaded] = useState(/** @type {{Shown?: any, error?: any}} */ ({}));
  const found = ROUTES.map((route) => ({ route, parts: match(route.path, path) })).find(({ parts }) => parts);
  const allowed = found && (!found.route.needs || can(found.route.needs)) ? found : null;
  const load = () => {
    setLoaded({});
    allowed?.route.load().then((module) => setLoaded({ Shown: module.default }), (error) => setLoaded({ error }));
  };
  useEffect(load, [allowed?.route]);
  if (!allowed) {
    return html`<${NotFound} />`;
  }
  const { Shown, error } = loaded;
  return error ? html`<${Problem} error=${error} again=${load} />` : Shown ? html`<${Shown} ...${allowed.parts} query=${query} />` : html`<${Loading} />`;
}

function NotFound() {
  useTitle(say("not_found.title"));
  return html`<${Empty} title=${say("not_found.title")} text=${say("not_found.text")}><a role="button" class="outline" href=${address("/")}>${say("not_found.home")}</a><//>`;
}
