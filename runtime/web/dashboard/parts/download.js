// File downloads.
import { API, Refused } from "../api.js";
import { token } from "../session.js";

/** @param {string} name @param {Blob} blob */
export function saved(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Downloads an export. Throws Refused; an interrupted download saves no file.
 * @param {string} name
 * @param {Record<string, string | number>} query
 * @param {(bytes: number) => void} progress receives the number of bytes so far
 */
export async function exported(name, query, progress) {
  const said = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "").map(([key, value]) => [key, String(value)]));
  const answer = await fetch(`${API}/admin/exports/${name}?${said}`, { headers: { Authorization: `Bearer ${token.value}` } }).catch(() => null);
  if (!answer?.ok || !answer.body) {
    throw new Refused(answer?.status ?? 0, await answer?.json().catch(() => null));
  }
  const reader = answer.body.getReader();
  const parts = [];
  let bytes = 0;
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      bytes += part.value.length;
      progress(bytes);
    }
  } catch {
    throw new Refused(0, null);
  }
  saved(`${name}.csv`, new Blob(parts, { type: "text/csv" }));
}
