// A chart with its data as a table and CSV.
import { fileAddress } from "../files.js";
import { html, useEffect, useRef } from "../lib.js";
import { say } from "../words.js";
import { saved } from "./download.js";
import { Table } from "./list.js";

const HEIGHT = 240;
const SHEET = fileAddress("uplot.css");

/** The library and its style sheet, loaded with the first chart. */
async function library() {
  if (!document.querySelector(`link[href="${SHEET}"]`)) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: SHEET }));
  }
  return (await import("uplot")).default;
}

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {number[]} values
 * @property {string} colour a name of style.css: --own
 */

/**
 * Bars and lines. Hidden from screen readers: the table below has the data.
 * @param {{label: string, axis: string, names: string[], lines: Line[]}} props names: what stands under each place; axis: what these are
 */
export function Chart({ label, axis: along, names, lines }) {
  const place = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const box = place.current;
    /** @type {any} */
    let chart = null;
    let gone = false;
    const colour = (/** @type {string} */ name) => getComputedStyle(box).getPropertyValue(name).trim();
    const draw = async () => {
      const uPlot = await library();
      if (gone) {
        return;
      }
      chart?.destroy();
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      chart = new uPlot(
        {
          width: Math.max(box.clientWidth, 100),
          height: HEIGHT,
          scales: { x: { time: false, range: () => [-0.6, Math.max(names.length, 1) - 0.4] }, y: { range: (/** @type {any} */ _, /** @type {any} */ __, /** @type {number} */ most) => [0, Math.max(most * 1.1, 1)] } },
          axes: [
            { ...axis, grid: { show: false }, incrs: [1, 2, 5, 10, 20, 50, 100], values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((i) => names[i] ?? "") },
            { ...axis, size: 64 },
          ],
          cursor: { drag: { x: false, y: false } },
          series: [
            { label: along, value: (/** @type {any} */ _, /** @type {number | null} */ at) => (at === null ? "" : names[at] ?? "") },
            ...lines.map((line, i) => ({
              label: line.label,
              stroke: colour(line.colour),
              width: 2,
              ...(i ? { points: { show: names.length < 40 } } : { fill: `color-mix(in srgb, ${colour(line.colour)} 35%, transparent)`, paths: uPlot.paths.bars?.({ size: [0.7, 60] }), points: { show: false } }),
            })),
          ],
        },
        /** @type {any} */ ([names.map((_, i) => i), ...lines.map(({ values }) => values)]),
        box,
      );
    };
    draw();
    const watch = new ResizeObserver(() => chart?.setSize({ width: Math.max(box.clientWidth, 100), height: HEIGHT }));
    watch.observe(box);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      gone = true;
      watch.disconnect();
      dark.removeEventListener("change", draw);
      chart?.destroy();
    };
  }, [JSON.stringify([names, lines])]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${place}></div>`;
}

/**
 * A table of numbers with a CSV download.
 * @param {{caption: string, name: string, columns: {key: string, title: string, text?: boolean, show?: (item: any) => any}[], items: any[], open?: boolean}} props
 */
export function Numbers({ caption, name, columns, items, open = false }) {
  const take = () => saved(`${name}.csv`, new Blob([csv([columns.map(({ key }) => key), ...items.map((item) => columns.map(({ key }) => item[key]))])], { type: "text/csv" }));
  return html`<details class="numbers" open=${open}>
    <summary>${say("figures.numbers")}</summary>
    <${Table} caption=${caption} items=${items.map((item, i) => ({ id: i, ...item }))}
      columns=${columns.map(({ key, title, text, show }, i) => ({ title, number: i > 0 && !text, show: show ?? ((/** @type {any} */ item) => item[key]) }))} />
    <p class="acts"><button type="button" class="secondary outline small" onClick=${take}>${say("figures.csv")}</button></p>
  </details>`;
}

/** @param {any[][]} rows @returns {string} as RFC 4180 has it; nothing in it is a formula */
export function csv(rows) {
  const cell = (/** @type {any} */ value) => {
    const text = typeof value === "string" && /^[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
