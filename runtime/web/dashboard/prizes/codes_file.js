// Splits a file of codes into parts for upload.
const PART = 5000;
const TYPES = /** @type {Record<string, string>} */ ({ csv: "text/csv", json: "application/json" });
const HEADING = /^\ufeff?"?\s*(codes?|(voucher|coupon)([ _]code)?)\s*"?\s*([,;\t]|$)/i;

/**
 * @typedef {object} Part
 * @property {any} body
 * @property {string} type
 * @property {number} lines how many there are in it
 * @property {number} before how many of the file stand before those that the service counts
 */

/**
 * The file's parts. Each part of a CSV repeats the header. Throws SyntaxError for invalid .json.
 * @param {string} name
 * @param {string} text
 * @returns {Part[]}
 */
export function partsOf(name, text) {
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1).toLowerCase()] ?? "text/plain";
  if (type === TYPES.json) {
    const read = JSON.parse(text);
    return cut(Array.isArray(read) ? read : read?.codes ?? []).map(({ some, before }) => ({ type, body: { codes: some }, lines: some.length, before }));
  }
  const lines = text.split("\n");
  const first = lines.findIndex((line) => line.trim());
  const heading = type === TYPES.csv && HEADING.test(lines[first]?.trim() ?? "") ? lines.slice(0, first + 1) : [];
  return cut(lines.slice(heading.length))
    .filter(({ some }) => some.some((line) => line.trim()))
    .map(({ some, before }) => ({ type, body: [...heading, ...some].join("\n"), lines: some.length, before }));
}

/** @param {any[]} all */
const cut = (all) => Array.from({ length: Math.ceil(all.length / PART) }, (_, nth) => ({ some: all.slice(nth * PART, (nth + 1) * PART), before: nth * PART }));
