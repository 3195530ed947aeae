// The field of a picture or font: its URL, typed, uploaded or chosen among the uploaded ones. A file can be dropped on it.
import { api } from "../api.js";
import { html, useRef, useState } from "../lib.js";
import { can } from "../session.js";
import { say } from "../words.js";
import { Act } from "./button.js";
import { confirm, Dialog } from "./dialog.js";
import { useData } from "./requests.js";
import { Empty, Loading, Problem } from "./states.js";
import { complain } from "./toast.js";

/** The service's limit, in bytes and in pixels per side. Larger pictures are scaled down here. */
const UPLOAD_MAX = 3_000_000;
const SIDE_MAX = 2_048;
const LISTED_MAX = 100;
const ACCEPT = /** @type {Record<string, string>} */ ({ image: "image/png,image/jpeg,image/webp", font: ".woff2,font/woff2" });

/** @typedef {{value: string, change: (value: string) => void, named: Record<string, any>}} Field */

/** @param {Field} props */
export const Picture = (props) => html`<${Asset} kind="image" ...${props} />`;

/** @param {Field} props */
export const Font = (props) => html`<${Asset} kind="font" ...${props} />`;

/** @param {Field & {kind: string}} props */
function Asset({ kind, value, change, named }) {
  const file = useRef(/** @type {HTMLInputElement | null} */ (null));
  const latest = useRef(change); // Other fields may change during an upload.
  latest.current = change;
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const [open, setOpen] = useState(false);
  const upload = async (/** @type {File | undefined} */ chosen) => {
    if (!chosen || busy) {
      return;
    }
    setBusy(true);
    try {
      const body = await reduced(chosen);
      const headers = { "Content-Type": body.type || "application/octet-stream" };
      const { url } = await api.post("/admin/assets", { query: { name: chosen.name.slice(0, 200) }, body, headers });
      latest.current(url);
    } catch (refused) {
      complain(refused);
    } finally {
      setBusy(false);
    }
  };
  const drag = (/** @type {boolean} */ now) => (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(now);
  };
  const drop = (/** @type {DragEvent} */ event) => {
    drag(false)(event);
    upload(event.dataTransfer?.files[0]);
  };
  const may = can("CreateAsset");
  return html`<div class="asset" data-over=${over} onDragOver=${may && drag(true)} onDragLeave=${may && drag(false)} onDrop=${may && drop}>
    ${kind === "image" && /^(\/assets\/|data:image)/.test(value ?? "") && html`<img src=${value} alt="" />`}
    <input ...${named} value=${value ?? ""} onInput=${(/** @type {any} */ event) => change(event.target.value)} />
    ${may && html`<button type="button" class="secondary outline small" aria-busy=${busy} onClick=${() => file.current?.click()}>${say("asset.upload")}</button>
      <input ref=${file} type="file" hidden tabindex="-1" aria-label=${say("asset.upload")} accept=${ACCEPT[kind]}
        onChange=${(/** @type {any} */ event) => { upload(event.target.files[0]); event.target.value = ""; }} />`}
    ${can("ListAssets") && html`<button type="button" class="secondary outline small" onClick=${() => setOpen(true)}>${say("asset.choose")}</button>`}
    ${open && html`<${Library} kind=${kind} close=${() => setOpen(false)} choose=${(/** @type {string} */ url) => { setOpen(false); change(url); }} />`}
  </div>`;
}

/** The uploaded pictures or fonts. @param {{kind: string, close: () => void, choose: (url: string) => void}} props */
function Library({ kind, close, choose }) {
  const { data, error, again } = useData((signal) => api.get("/admin/assets", { query: { type: kind, limit: LISTED_MAX }, signal }), [kind]);
  const remove = async (/** @type {any} */ one) => {
    if (await confirm({ title: say("asset.remove_title", { name: one.name || one.id }), text: say("asset.remove_text"), word: say("asset.remove"), danger: true })) {
      try {
        await api.remove("/admin/assets/{id}", { path: { id: one.id } });
        await again();
      } catch (refused) {
        complain(refused);
      }
    }
  };
  const called = (/** @type {any} */ one) => one.name || `${one.width} × ${one.height}`;
  return html`<${Dialog} title=${say(`asset.library_${kind}`)} close=${close} wide>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : data.items.length === 0 ? html`<${Empty} title=${say("asset.none")} />` : html`<ul class="library">
      ${data.items.map((/** @type {any} */ one) => html`<li key=${one.id}>
        <button type="button" class="plain" aria-label=${say("asset.use", { name: called(one) })} onClick=${() => choose(one.url)}>
          ${kind === "image" ? html`<img src=${one.url} alt="" loading="lazy" />` : ""}<span>${called(one)}</span></button>
        ${can("DeleteAsset") && html`<${Act} class="plain remove" act=${() => remove(one)}><span aria-label=${say("asset.remove_of", { name: called(one) })}>×</span><//>`}
      </li>`)}</ul>
      <p class="quiet">${say("asset.used", { used: megabytes(data.used_bytes), quota: megabytes(data.quota_bytes) })}</p>`}
  <//>`;
}

/** @param {number} bytes */
const megabytes = (bytes) => (bytes / 1_000_000).toFixed(1);

/** The file, or a smaller copy of a picture that is too large to upload. @param {File} file @returns {Promise<Blob>} */
async function reduced(file) {
  if (file.size <= UPLOAD_MAX || !file.type.startsWith("image/")) {
    return file;
  }
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, SIDE_MAX / Math.max(picture.width, picture.height));
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const made = await new Promise((done) => canvas.toBlob(done, "image/webp", 0.9));
  return /** @type {Blob | null} */ (made) ?? file;
}
