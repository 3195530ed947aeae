// The release schedule in a prize's form.
import { html } from "../lib.js";
import { label, say } from "../words.js";

const KINDS = ["NONE", "EVEN", "SEALED", "TIMES"];
const COUNT = { type: "integer", minimum: 0, maximum: 2147483647 };
const TIME = { type: "integer", format: "unix-time" };
const HOUR = { type: "integer", minimum: 0, maximum: 24 };

/** @param {Record<string, any>} properties */
const object = (properties) => ({ type: "object", properties, description: say("prizes.help_release") });

/** The schema of the fields of this kind. @param {{kind?: string} | undefined} release */
export function schemaOf(release) {
  const kind = { type: "string", enum: KINDS };
  switch (release?.kind) {
    case "TIMES":
      return object({ kind, timezone: { type: "string", format: "time-zone" }, times: { type: "array", items: { type: "object", properties: { at: TIME, units: { ...COUNT, minimum: 1 } }, required: ["at", "units"] } } });
    case "EVEN":
    case "SEALED":
      return object({
        kind, units: { ...COUNT, help: say("prizes.help_release_units") }, timezone: { type: "string", format: "time-zone" }, starts_at: TIME, ends_at: TIME,
        hours: { type: "array", description: say("prizes.help_release_hours"), items: { type: "object", properties: { weekdays: { type: "array", items: { type: "integer" } }, from_hour: HOUR, to_hour: HOUR }, required: ["weekdays", "to_hour"] } },
      });
    default:
      return object({ kind });
  }
}

/** The form's value. @param {any} release */
export function editable(release) {
  if (!release) return { kind: "NONE" };
  const rest = { ...release };
  delete rest.commitment;
  delete rest.opening;
  return rest;
}

/** The part of a request body. @param {any} release */
export function sent(release) {
  const { kind, times = [], hours = [], units = 0, starts_at = 0, ends_at = 0, timezone = "UTC" } = release ?? {};
  if (kind === "TIMES") return { kind, times };
  return kind === "EVEN" || kind === "SEALED" ? { kind, units, starts_at, ends_at, hours, timezone } : { kind: "NONE" };
}

/** @param {any} props */
export const Kind = ({ value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${KINDS.map((one) => html`<option value=${one}>${kindName(one)}</option>`)}
</select>`;

/** @param {string} kind */
export const kindName = (kind) => say(`prizes.release_${kind}`);

/** A checkbox per day, from Monday. @param {any} props */
export function Weekdays({ value = [], change, named }) {
  const days = [1, 2, 3, 4, 5, 6, 7];
  const turn = (/** @type {number} */ day) => change(days.filter((one) => (one === day) !== value.includes(one)));
  const name = new Intl.DateTimeFormat("en", { weekday: "short", timeZone: "UTC" });
  return html`<div id=${named.id} role="group" class="choices" aria-label=${label("weekdays")} aria-describedby=${named["aria-describedby"]}>
    ${days.map((day) => html`<label key=${day}><input type="checkbox" name=${`${named.name}.${day}`} checked=${value.includes(day)} aria-invalid=${named["aria-invalid"]} onChange=${() => turn(day)} />${name.format(new Date(Date.UTC(2024, 0, day)))}</label>`)}
  </div>`;
}
