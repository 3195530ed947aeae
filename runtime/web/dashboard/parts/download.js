// File downloads.
import { API, Refused } from "../api.js";
import { html, useState } from "../lib.js";
import { token } from "../session.js";
import { say } from "../words.js";
import { complain, tell } from "./toast.js";

/** @param {string} name @param {Blob} blob */
export function saved(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** File format -> media type. */
const FORMATS = { csv: "text/csv", jsonl: "application/x-ndjson", parquet: "application/vnd.apache.parquet" };

/**
 * The format's select, a function that downloads an export in that format and shows the result, and its progress as text.
 * @returns {{progress: string, formats: any, take: (kind: string, query: Record<string, string | number>) => Promise<void>}}
 */
export function useExport() {
  const [progress, setProgress] = useState("");
  const [format, setFormat] = useState(/** @type {keyof FORMATS} */ ("csv"));
  const formats = html`<select aria-label=${say("export.format")} value=${format} onChange=${(/** @type {any} */ event) => setFormat(event.target.value)}>
    ${Object.keys(FORMATS).map((one) => html`<option value=${one}>${say(`export.format_${one}`)}</option>`)}
  </select>`;
  const take = async (/** @type {string} */ kind, /** @type {Record<string, string | number>} */ query) => {
    const name = say(`export.${kind}`);
    try {
      await exported(kind, format, query, (bytes) => setProgress(say("export.come", { kind: name, bytes: Math.ceil(bytes / 1024) })));
      tell(say("export.done", { kind: name }));
    } catch (refused) {
      complain(refused);
    } finally {
      setProgress("");
    }
  };
  return { progress, formats, take };
}

/**
 * Downloads an export. Throws Refused; an interrupted download saves no file.
 * @param {string} name
 * @param {keyof FORMATS} format
 * @param {Record<string, string | number>} query
 * @param {(bytes: number) => void} progress receives the number of bytes so far
 */
async function exported(name, format, query, progress) {
  const said = new URLSearchParams(Object.entries({ ...query, format: format === "csv" ? "" : format }).filter(([, value]) => value !== "").map(([key, value]) => [key, String(value)]));
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
  saved(`${name}.${format}`, new Blob(parts, { type: FORMATS[format] }));
}
