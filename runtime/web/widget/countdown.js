// A countdown to a time.

import { h } from "./dom.js";

/** If the time has already passed at the first display, the device's clock is ahead: asks again after this. */
const AHEAD_MS = 10_000;

/** From the largest; those before the first that counts are left out. @type {[string, number][]} */
const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** @param {import("./words.js").Words} words @param {number} at unix seconds @param {() => void} begun called once, where it is still shown then */
export function countdown(words, at, begun) {
  const shown = h("div", { class: "countdown", role: "timer" });
  const due = at * 1000 > Date.now() ? at * 1000 : Date.now() + AHEAD_MS;
  const tick = () => {
    let left = Math.max(0, Math.ceil(at - Date.now() / 1000));
    const parts = UNITS.map(([unit, seconds]) => {
      const count = Math.floor(left / seconds);
      left %= seconds;
      return /** @type {[string, number]} */ ([unit, count]);
    });
    const first = parts.findIndex(([, count]) => count > 0);
    shown.replaceChildren(...parts.slice(first < 0 ? -1 : first).map(([unit, count]) => h("span", {}, ...words.counted(count, unit).map(({ type, value }) => h(type === "unit" ? "small" : "b", {}, value)))));
  };
  const wait = () =>
    setTimeout(() => {
      if (!shown.isConnected) return;
      tick();
      if (due <= Date.now()) begun();
      else wait();
    }, 1_000 - (Date.now() % 1_000));
  tick();
  wait();
  return shown;
}
