// What pages are written with: Preact's hooks, signals, and HTML as tagged templates.
import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

export { Fragment, render } from "./vendor/preact.js";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal } from "./vendor/signals.js";
