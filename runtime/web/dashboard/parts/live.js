// What happens now: server-sent events, read by fetch, since the token is in a header and in no address.
import { API } from "../api.js";
import { useEffect, useState } from "../lib.js";
import { ended, token } from "../session.js";

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
const SILENT_MS = 15_000; // The service says something every few seconds: a connection that does not is none.

/**
 * @typedef {object} Told
 * @property {any} data the newest that was told; null before the first
 * @property {boolean} away whether nothing newer can be had just now
 */

/** @returns {Told} */
export function useLive() {
  const [told, setTold] = useState(/** @type {Told} */ ({ data: null, away: false }));
  useEffect(() => {
    const leaving = new AbortController();
    watch(leaving.signal, (data) => setTold(({ data: before }) => (data ? { data, away: false } : { data: before, away: true })));
    return () => leaving.abort();
  }, []);
  return told;
}

/**
 * Watches until `signal`: where the stream ends, it begins another, later and later while none comes about.
 * @param {AbortSignal} signal
 * @param {(data: any) => void} tell null: nothing newer can be had
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
