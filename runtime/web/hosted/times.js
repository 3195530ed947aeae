// The times of a campaign's page: in the reader's language, with a countdown to the start. The page loads again when the
// next game begins.

import { countdown } from "../widget/countdown.js";
import { Words } from "../widget/words.js";

/** The edge caches the page for two seconds. */
const STALE_MS = 3_000;
/** The longest delay of a timer. */
const WAIT_MAX_MS = 2 ** 31 - 1;

const { lang } = document.documentElement;
const words = await Words.load(lang);
const begun = () => setTimeout(() => location.reload(), STALE_MS);
const starts = [];
for (const time of document.querySelectorAll("time")) {
  const at = Date.parse(time.dateTime);
  const zone = time.dataset.zone;
  time.textContent = "day" in time.dataset ? new Intl.DateTimeFormat(lang, { day: "numeric", month: "long", timeZone: zone }).format(at).replaceAll(" ", "\u00a0") : words.when(at / 1000, zone);
  if ("countdown" in time.dataset) time.closest("p")?.after(countdown(words, at / 1000, begun));
  else if (at > Date.now()) starts.push(at);
}
const next = Math.min(...starts);
if (next - Date.now() < WAIT_MAX_MS) setTimeout(begun, next - Date.now());
// A timer does not count the time that the device sleeps.
document.addEventListener("visibilitychange", () => !document.hidden && Date.now() >= next + STALE_MS && location.reload());
