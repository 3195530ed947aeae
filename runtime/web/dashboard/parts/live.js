// Live data: server-sent events read with fetch, because EventSource cannot send the token as a header.
import { API } from "../api.js";
import { useEffect, useState } from "../lib.js";
import { ended, token } from "../session.js";

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
const SILENT_MS = 15_000; // The service sends an event every few seconds: a silent connection is dead.

/**
 * @typedef {object} LiveState
 * @property {any} data the latest event; null before the first
 * @property {boolean} away whether the stream is unavailable
 */

/** @returns {LiveState} */
export function useLive() {
  const [state, setState] = useState(/** @type {LiveState} */ ({ data: null, away: false }));
  useEffect(() => {
    const leaving = new AbortController();
    watch(leaving.signal, (data) => setState(({ data: before }) => (data ? { data, away: false } : { data: before, away: true })));
    return () => leaving.abort();
  }, []);
  return state;
}

/**
 * Watches until `signal` aborts. Reconnects with back-off when the stream ends.
 * @param {AbortSignal} signal
 * @param {(data: any) => void} tell null: the stream is unavailable
 */
async function watch(signal, tell) {
  let pause = FIRST_MS;
  while (!signal.aborted) {
    const status = await read(signal, (data) => {
      pause = FIRST_MS;
      tell(data);
    });
    if (signal.aborted) {
      return;
    }
    if (status === 401) {
      ended();
      return;
    }
    if (status === 403) {
      return;
    }
    tell(null);
    await new Promise((resolve) => {
      setTimeout(resolve, pause * (0.75 + Math.random() / 2));
    });
    pause = Math.min(pause * 2, LONGEST_MS);
  }
}

/**
 * One stream, to its end.
 * @param {AbortSignal} signal
 * @param {(data: any) => void} tell
 * @returns {Promise<number>} its HTTP status; 0: there was no answer
 */
async function read(signal, tell) {
  const silent = new AbortController();
  const hang = () => setTimeout(() => silent.abort(), SILENT_MS);
  let timer = hang();
  try {
    const either = AbortSignal.any([signal, silent.signal]);
    const answer = await fetch(`${API}/admin/live`, { headers: { Authorization: `Bearer ${token.value}` }, signal: either });
    if (!answer.ok || !answer.body) {
      return answer.status;
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(timer);
      timer = hang();
      const events = (held + part.value).split("\n\n");
      held = events.pop() ?? "";
      for (const event of events) {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? [];
        if (name === "live" || name === "away") {
          tell(name === "live" ? JSON.parse(data) : null);
        }
      }
    }
    return answer.status;
  } catch {
    return 0;
  } finally {
    clearTimeout(timer);
  }
}
