// Share and embed: the link to the hosted page, the embed snippet, and a QR code.
import { html, useEffect, useState } from "../lib.js";
import { me } from "../session.js";
import { say } from "../words.js";
import { saved } from "./download.js";
import { Section } from "./layout.js";
import { Problem } from "./states.js";

const PICTURE_PIXELS = 512;

/**
 * @param {object} props
 * @param {"c" | "p"} props.kind whether a campaign's page or a game's
 * @param {{id: string, name: string}} props.of
 * @param {string[]} props.games ids of the playable games to embed
 * @param {boolean} [props.calendar] whether the campaign is embedded as a calendar
 * @param {string[]} props.origins the origins that may embed it
 * @param {string} [props.note] why it is not visible yet
 */
export function Embed({ kind, of, games, calendar = false, origins, note = "" }) {
  const { consumer_url: base, tenant_id: tenant, default_tenant: known } = /** @type {any} */ (me.value);
  if (!base) {
    return html`<${Section} title=${say("embed.title")}><p>${say("embed.unknown")}</p><p><code>CONSUMER_BASE_URL=https://play.example</code></p><//>`;
  }
  const other = tenant !== known;
  const link = `${base}/${kind}/${encodeURIComponent(of.id)}${other ? `?tenant_id=${encodeURIComponent(tenant)}` : ""}`;
  const named = other ? ` tenant="${tenant}"` : "";
  const elements = calendar ? [`<tombola-calendar campaign="${of.id}"${named}></tombola-calendar>`] : games.map((id) => `<tombola-game game="${id}"${named}></tombola-game>`);
  const snippet = [`<script type="module" src="${base}/widget/v1/tombola.js"></script>`, ...elements].join("\n");
  return html`<${Section} title=${say("embed.title")} note=${note}>
    <div class="embed">
      <div>
        <h3>${say("embed.link")}</h3>
        <p class="row"><a href=${link} target="_blank" rel="noopener noreferrer">${link}</a><${Copy} text=${link} what=${say("embed.the_link")} /></p>
        <h3>${say("embed.snippet")}</h3>
        ${games.length
          ? html`<div class="row"><pre tabindex="0" role="region" aria-label=${say("embed.snippet")}><code>${snippet}</code></pre><${Copy} text=${snippet} what=${say("embed.the_snippet")} /></div>`
          : html`<p class="quiet">${say("embed.no_games")}</p>`}
        <p class="quiet">${origins.length ? say("embed.origins", { origins: origins.join(", ") }) : say("embed.no_origins")}</p>
      </div>
      <${Qr} link=${link} name=${of.name} />
    </div>
  <//>`;
}

/** A button that copies the text before it. On plain HTTP there is no clipboard API: the text is selected. @param {{text: string, what: string}} props */
export function Copy({ text, what }) {
  const [copied, setCopied] = useState(false);
  const copy = async (/** @type {Event} */ { currentTarget: button }) => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      const before = /** @type {any} */ (button).previousElementSibling;
      if (before instanceof HTMLInputElement) {
        before.select();
      } else {
        getSelection()?.selectAllChildren(before);
      }
      setCopied(document.execCommand("copy"));
    }
  };
  return html`<button type="button" class="secondary outline small" aria-label=${`${say("copy")} ${what}`} onClick=${copy}>${copied ? say("embed.copied") : say("copy")}</button>
    <span class="unseen" role="status">${copied ? `${what} ${say("copied")}` : ""}</span>`;
}

/** The link as a printable QR code. @param {{link: string, name: string}} props */
function Qr({ link, name }) {
  const [drawn, setDrawn] = useState(/** @type {SVGElement | null} */ (null));
  const [failed, setFailed] = useState(/** @type {unknown} */ (null));
  useEffect(() => {
    let gone = false;
    draw(link, say("embed.qr_of", { link })).then((svg) => gone || setDrawn(svg), (error) => gone || setFailed(error));
    return () => {
      gone = true;
    };
  }, [link]);
  if (!drawn) {
    return failed ? html`<${Problem} error=${failed} />` : null;
  }
  const picture = new XMLSerializer().serializeToString(drawn);
  const address = `data:image/svg+xml,${encodeURIComponent(picture)}`;
  const file = (/** @type {string} */ kind) => `${name.replace(/[^\p{L}\p{N}]+/gu, "-") || "qr"}.${kind}`;
  return html`<figure><img src=${address} width="180" height="180" alt=${say("embed.qr_of", { link })} />
    <figcaption>
      <button type="button" class="secondary outline small" onClick=${() => saved(file("svg"), new Blob([picture], { type: "image/svg+xml" }))}>${say("embed.save_svg")}</button>
      <button type="button" class="secondary outline small" onClick=${async () => saved(file("png"), await pixels(address))}>${say("embed.save_png")}</button>
    </figcaption></figure>`;
}

/** The widget's QR code renderer. @param {string} text @param {string} label @returns {Promise<SVGElement>} */
async function draw(text, label) {
  const { src } = await (await fetch("/widget/v1/integrity.json")).json();
  const { qr } = await import(new URL("panels/code.js", new URL(src, location.origin)).href);
  const svg = await qr(text, label);
  svg.setAttribute("width", PICTURE_PIXELS);
  svg.setAttribute("height", PICTURE_PIXELS);
  return svg;
}

/** A picture as PNG. @param {string} address @returns {Promise<Blob>} */
async function pixels(address) {
  const image = Object.assign(new Image(), { src: address });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: PICTURE_PIXELS, height: PICTURE_PIXELS });
  canvas.getContext("2d")?.drawImage(image, 0, 0);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error())), "image/png"));
}
