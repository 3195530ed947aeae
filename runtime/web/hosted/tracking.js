// Loads the campaign's trackers, once the player's entry agrees to the consent that the campaign names. Until then, no
// request goes to them. A visitor who objects to tracking gets none.
import { Identity } from "../widget/storage.js";

const { ga4, gtm, metaPixel, consent = "", campaign = "", tenant = "" } = /** @type {HTMLElement | null} */ (document.querySelector("meta[name=tombola-tracking]"))?.dataset ?? {};
const page = /** @type {any} */ (window);
let loaded = false;

/** @param {string} address */
const load = (address) => document.head.append(Object.assign(document.createElement("script"), { async: true, src: address }));

function start() {
  loaded = true;
  page.dataLayer ??= [];
  if (ga4) {
    page.gtag = function () {
      page.dataLayer.push(arguments); // gtag.js reads the arguments object, not an array.
    };
    page.gtag("js", new Date());
    page.gtag("config", ga4);
    load(`https://www.googletagmanager.com/gtag/js?id=${ga4}`);
  }
  if (gtm) {
    page.dataLayer.push({ "gtm.start": Date.now(), event: "gtm.js" });
    load(`https://www.googletagmanager.com/gtm.js?id=${gtm}`);
  }
  if (metaPixel) {
    /** @type {any} */
    const fbq = (/** @type {any[]} */ ...what) => (fbq.callMethod ? fbq.callMethod(...what) : fbq.queue.push(what));
    Object.assign(fbq, { push: fbq, loaded: true, version: "2.0", queue: [] });
    page.fbq = page._fbq = fbq;
    page.fbq("init", metaPixel);
    page.fbq("track", "PageView");
    load("https://connect.facebook.net/en_US/fbevents.js");
  }
}

/** Asks the service, which knows whether the consent is in force: given to the current text and not withdrawn. */
async function check() {
  const { token } = new Identity(`${location.origin}:${tenant}`);
  if (loaded || !token || navigator.doNotTrack === "1" || page.navigator.globalPrivacyControl) return;
  const headers = { Authorization: `Bearer ${token}`, ...(tenant ? { "X-Tenant-Id": tenant } : {}) };
  const answer = await fetch(`/api/v1/campaigns/${encodeURIComponent(campaign)}/entry`, { headers, credentials: "omit" });
  const { data } = await answer.json();
  const agreed = (data?.given?.consents ?? []).some((/** @type {any} */ one) => one.id === consent && one.given);
  if (agreed && !loaded) start();
}

const quietly = () => void check().catch(() => {}); // Without a response there is no consent.
addEventListener("tombola:entered", quietly);
quietly();
