// Files that are taken along.
import { API, Refused } from "../api.js";
import { token } from "../session.js";

/** @param {string} name @param {Blob} blob */
export function saved(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Everything of a kind, as the service exports it. Throws Refused; what breaks off is no file.
 * @param {string} name
 * @param {Record<string, string | number>} query
 * @param {(bytes: number) => void} told how much has come
 */
export async function exported(name, query, told) {
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
      told(bytes);
    }
  } catch {
    throw new Refused(0, null);
  }
  saved(`${name}.csv`, new Blob(parts, { type: "text/csv" }));
}
