// A form from a JSON Schema: of a reward handler's config, or of a page.
//
// Understood: string, number, integer, boolean, enum, array, object (with properties, or a map of names), $ref, anyOf
// (the first), default, description, minimum and maximum, minLength and maxLength. Anything else is edited as JSON.
// A property with `const` has this value and is not shown. `titles` are the texts of an enum.
// Extensions: `when`, a sibling's name and the value at which the property is shown; `format` "unix-time" (seconds, in the form's zone), "time-zone", "lines"; `label`, the field's name; `names`, keys to offer for a map; `help`, a hint instead of the description.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../lib.js";
import { fromInput, toInput } from "../local_times.js";
import { ZONES } from "../times.js";
import { has, label, say, sentence } from "../words.js";
import { useReveal } from "./reveal.js";
import { complain } from "./toast.js";

/** @typedef {Record<string, any>} Schema */

/**
 * @typedef {object} Around the context of every field of a form
 * @property {Schema} root
 * @property {string} zone in which its times are
 * @property {Record<string, string>} errors by path, such as `handler_config.prizes[2].probability`
 * @property {(name: string, path: string) => any} widget another component for a field, where a page has one
 */

/**
 * The form. save receives the value; a refusal's violations are shown at their fields.
 * @param {object} props
 * @param {Schema} props.schema
 * @param {any} props.value
 * @param {(value: any) => any} props.save
 * @param {string} props.word the button's
 * @param {string} [props.prefix] what the service's names of the fields begin with, such as "handler_config"
 * @param {string} [props.zone] where no field of the form says it
 * @param {(name: string, path: string) => any} [props.widget]
 * @param {(value: any) => void} [props.typed] called on each change
 * @param {() => void} [props.cancel]
 * @param {any} [props.children] rendered before the buttons; a function receives the value and a setter
 */
export function Form({ schema, value: given, save, word, prefix = "", zone = "UTC", widget = () => null, typed, cancel, children }) {
  const [value, setValue] = useState(() => filled(schema, given, schema));
  const [errors, setErrors] = useState(/** @type {Record<string, string>} */ ({}));
  const own = useRef(/** @type {HTMLFormElement | null} */ (null));
  useReveal(own);
  useEffect(() => {
    if (Object.keys(errors).length) {
      const focus = (/** @type {string} */ selector) => {
        const found = /** @type {HTMLElement | null | undefined} */ (own.current?.querySelector(selector));
        found?.focus();
        return found !== null && found === document.activeElement;
      };
      // A refused list cannot be focused: then the summary is, so that the refusal is in view.
      focus("[aria-invalid=true]") || focus(".problem");
    }
  }, [errors]);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    if (busy) {
      return;
    }
    setBusy(true);
    setErrors({});
    try {
      await save(value);
    } catch (error) {
      const { fields = {}, reason = "" } = /** @type {any} */ (error);
      if (reason === "APPROVAL_NEEDED") {
        complain(error);
        cancel?.();
        return;
      }
      setErrors(Object.keys(fields).length ? fields : { "": reason === "STALE_REVISION" ? say("refused.stale") : /** @type {any} */ (error).message });
      if (!own.current) {
        complain(error);
      }
    } finally {
      setBusy(false);
    }
  };
  const change = (/** @type {any} */ next) => { setValue(next); typed?.(next); };
  const around = { root: schema, zone: value?.timezone || zone, errors, widget };
  const drawn = new Set(Object.keys(errors).length ? paths({ schema, value, path: prefix, name: "", around }) : []);
  const unplaced = Object.entries(errors).filter(([path]) => !path || !drawn.has(path));
  return html`<form ref=${own} class="schema" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); submit(); }}>
    ${Object.keys(errors).length > 0 && html`<div class="problem" role="alert" tabindex="-1">
      ${unplaced.length < Object.keys(errors).length && html`<p>${say("refused.fields", { count: Object.keys(errors).length - unplaced.length })}</p>`}
      ${unplaced.map(([path, text]) => html`<p>${path && html`<code>${path}</code> `}${text}</p>`)}
    </div>`}
    <${Any} schema=${schema} value=${value} path=${prefix} name="" around=${around} change=${change} />
    ${typeof children === "function" ? children(value, change) : children}
    <footer>
      ${cancel && html`<button type="button" class="secondary outline" onClick=${cancel}>${say("cancel")}</button>`}
      <button type="submit" aria-busy=${busy}>${word}</button>
    </footer>
  </form>`;
}

/**
 * Resolves a schema: follows references and takes the first alternative.
 * @param {Schema} schema
 * @param {Schema} root
 * @returns {Schema}
 */
export function resolved(schema, root) {
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
    const found = schema.$ref.slice(2).split("/").reduce((/** @type {any} */ at, name) => at?.[name.replaceAll("~1", "/").replaceAll("~0", "~")], root);
    return found ? resolved(found, root) : {};
  }
  const several = schema.anyOf ?? schema.oneOf;
  return several ? resolved(several.find((/** @type {Schema} */ one) => one.type !== "null") ?? {}, root) : schema;
}

/**
 * Fills in missing values, so that every field has a value.
 * @param {Schema} schema
 * @param {any} value
 * @param {Schema} root
 * @returns {any}
 */
export function filled(schema, value, root) {
  const one = resolved(schema, root);
  if (one.const !== undefined) {
    return one.const;
  }
  if (one.type === "object" && one.properties && (value === undefined || value === null || isObject(value))) {
    /** @type {Record<string, any>} */
    const made = { ...value };
    for (const [name, part] of Object.entries(one.properties)) {
      const needed = one.required?.includes(name) || value?.[name] !== undefined;
      if (needed) {
        made[name] = filled(part, value?.[name], root);
      }
    }
    return made;
  }
  if (value !== undefined && value !== null) {
    return value;
  }
  if (one.default !== undefined) {
    return structuredClone(one.default);
  }
  return { object: {}, array: [], string: one.enum?.[0] ?? "", boolean: false }[/** @type {string} */ (one.type)];
}

/**
 * @typedef {object} Part
 * @property {Schema} schema
 * @property {any} value
 * @property {string} path as the service names it
 * @property {string} name the last of it
 * @property {Around} around
 * @property {(value: any) => void} change
 * @property {boolean} [required]
 * @property {boolean} [entry] an entry of a map: its name is user input
 */

/** @typedef {Pick<Part, "schema" | "value" | "path" | "name" | "entry">} Within */

/** Whether a property applies with its siblings' values. @param {Schema | undefined} part @param {any} siblings */
const met = (part, siblings) => !part?.when || siblings?.[part.when[0]] === part.when[1];

/** The page's custom control of a field. @param {Within & {around: Around}} part */
const ownOf = ({ name, path, entry, around }) => (entry ? null : around.widget(name, path));

/**
 * The nested fields of an object, a map or a list; none for a single value.
 * @param {Within & {around: Around}} part
 * @returns {Within[]}
 */
function within({ schema, value, path, name, around }) {
  const at = (/** @type {string} */ key) => (path ? `${path}.${key}` : key);
  if (schema.type === "object" && schema.properties) {
    return Object.entries(schema.properties).filter(([, part]) => part.const === undefined && met(part, value)).map(([key, part]) => ({ schema: part, value: value?.[key], name: key, path: at(key) }));
  }
  if (schema.type === "object" && typeof schema.additionalProperties === "object") {
    return Object.entries(value ?? {}).map(([key, item]) => ({ schema: schema.additionalProperties, value: item, name: key, path: at(key), entry: true }));
  }
  if (schema.type === "array") {
    const one = resolved(schema.items ?? {}, around.root);
    return (Array.isArray(value) ? value : []).map((/** @type {any} */ item, /** @type {number} */ i) => ({ schema: one, value: item, name: one.properties ? "" : name, path: `${path}[${i}]` }));
  }
  return [];
}

/** Every path at which the form can show an error. @param {Within & {around: Around}} part @returns {string[]} */
function paths(part) {
  const { path, around } = part;
  const inner = ownOf(part) ? [] : within({ ...part, schema: resolved(part.schema, around.root) });
  return [path, ...inner.flatMap((one) => paths({ ...one, around }))];
}

/** Whether the value is an object. Free-form fields may store anything. @param {any} value */
export const isObject = (value) => Boolean(value) && typeof value === "object" && !Array.isArray(value);

/** Any field, by its type. @param {Part} part */
function Any(part) {
  const schema = resolved(part.schema, part.around.root);
  const own = ownOf(part);
  const known = { ...part, schema };
  if (own) {
    return html`<${Labelled} part=${known} field=${(/** @type {any} */ named) => html`<${own} ...${known} named=${named} />`} />`;
  }
  if (schema.type === "object" && schema.properties) {
    return html`<${Fields} ...${known} />`;
  }
  if (schema.type === "object" && typeof schema.additionalProperties === "object") {
    return html`<${Names} ...${known} />`;
  }
  if (schema.type === "array") {
    return html`<${Rows} ...${known} />`;
  }
  return html`<${Labelled} part=${known} field=${(/** @type {any} */ named) => input(known, named)} />`;
}

/** An object's fields. @param {Part} part */
function Fields(part) {
  const { schema, value, path, name, around, change } = part;
  const put = (/** @type {string} */ key, /** @type {any} */ next) => {
    const all = { ...(isObject(value) ? value : {}), [key]: next };
    change(Object.fromEntries(Object.entries(all).filter(([known]) => met(schema.properties[known], all))));
  };
  const inner = within(part).map((one) => html`<${Any} key=${one.name} ...${one} around=${around} required=${schema.required?.includes(one.name)} change=${(/** @type {any} */ next) => put(one.name, next)} />`);
  // An object's description describes its type, which is no help to users.
  const all = html`<${Help} path=${path} schema=${{ help: schema.help }} around=${around} /><div class="fields">${inner}</div>`;
  return name ? html`<fieldset data-path=${path}><legend>${label(name)}</legend>${all}</fieldset>` : html`<div>${all}</div>`;
}

let keysMade = 0;

/** Stable keys of a list's rows, so that input is kept when other rows are removed. @param {number} count */
function useKeys(count) {
  const { current: keys } = useRef(/** @type {number[]} */ ([]));
  while (keys.length < count) {
    keys.push(++keysMade);
  }
  keys.length = count;
  return keys;
}

/** A list: a row for each. @param {Part} part */
function Rows(part) {
  const { schema, path, name, around, change } = part;
  const value = Array.isArray(part.value) ? part.value : [];
  const keys = useKeys(value.length);
  const thing = label(name).toLowerCase();
  const remove = (/** @type {number} */ i) => {
    keys.splice(i, 1);
    change(value.toSpliced(i, 1));
  };
  return html`<fieldset class="rows" data-path=${path}><legend>${label(name)}</legend><${Help} path=${path} schema=${schema} around=${around} />
    ${within(part).map((one, i) => html`<div class="row" key=${keys[i]}>
      <${Any} ...${one} around=${around} change=${(/** @type {any} */ next) => change(value.with(i, next))} />
      <button type="button" class="plain" aria-label=${say("form.remove", { name: `${thing} ${i + 1}` })} onClick=${() => remove(i)}>×</button>
    </div>`)}
    <button type="button" class="secondary outline small" onClick=${() => change([...value, filled(schema.items ?? {}, undefined, around.root)])} aria-label=${say("form.add_to", { name: thing })}>${say("form.add")}</button>
  </fieldset>`;
}

/** A map: a row for each name. @param {Part} part */
function Names(part) {
  const { schema, value = {}, path, name, around, change } = part;
  const { current: keys } = useRef(/** @type {Map<string, number>} */ (new Map()));
  const entries = Object.entries(value);
  const titled = schema.label ?? label(name);
  const thing = titled.toLowerCase();
  const taken = (/** @type {string} */ key) => Object.hasOwn(value, key);
  /** @param {number} i @param {[string, any]} entry */
  const put = (i, entry) => change(Object.fromEntries(entries.with(i, entry)));
  /** @param {number} i @param {string} to */
  const rename = (i, to) => {
    const [key, item] = entries[i];
    keys.set(to, keys.get(key) ?? ++keysMade);
    keys.delete(key);
    put(i, [to, item]);
  };
  const remove = (/** @type {number} */ i) => {
    keys.delete(entries[i][0]);
    change(Object.fromEntries(entries.toSpliced(i, 1)));
  };
  const add = () => {
    let count = entries.length + 1;
    while (taken(`${name}_${count}`)) {
      count++;
    }
    const key = schema.names?.find((/** @type {string} */ one) => !taken(one)) ?? `${name}_${count}`;
    change({ ...value, [key]: filled(schema.additionalProperties, undefined, around.root) });
  };
  entries.forEach(([key]) => keys.has(key) || keys.set(key, ++keysMade));
  return html`<fieldset class="rows" data-path=${path}><legend>${titled}</legend><${Help} path=${path} schema=${schema} around=${around} />
    ${within(part).map((one, i) => html`<div class="row" key=${keys.get(one.name)}><div class="fields">
      <${Key} name=${one.name} called=${say(schema.names ? "form.language" : "form.key")} taken=${taken} rename=${(/** @type {string} */ to) => rename(i, to)} />
      <${Any} ...${one} around=${around} change=${(/** @type {any} */ next) => put(i, [one.name, next])} /></div>
      <button type="button" class="plain" aria-label=${say("form.remove", { name: one.name })} onClick=${() => remove(i)}>×</button>
    </div>`)}
    <button type="button" class="secondary outline small" onClick=${add} aria-label=${say("form.add_to", { name: thing })}>${say("form.add")}</button>
  </fieldset>`;
}

/**
 * The name of a map's entry. A duplicate name is marked invalid and kept for editing.
 * @param {{name: string, called: string, taken: (name: string) => boolean, rename: (name: string) => void}} props
 */
function Key({ name, called, taken, rename }) {
  const id = useId();
  const own = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [text, setText] = useState(name);
  const wrong = text !== name && taken(text);
  const done = (/** @type {string} */ to) => to && to !== name && !taken(to) && rename(to);
  useLayoutEffect(() => {
    own.current?.setCustomValidity(wrong ? say("form.taken") : "");
    if (document.activeElement !== own.current) {
      done(text); // The name is free again.
    }
  }, [wrong]);
  return html`<div class="field">
    <label for=${id}>${called}</label>
    <input ref=${own} id=${id} value=${text} required aria-invalid=${wrong ? "true" : undefined} aria-describedby=${wrong ? `${id}-more` : undefined}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onChange=${(/** @type {any} */ event) => done(event.target.value)} />
    ${wrong && html`<small id=${`${id}-more`} class="wrong" role="alert">${say("form.taken")}</small>`}
  </div>`;
}

/** A field with its label, hint and error. @param {{part: Part, field: (named: Record<string, any>) => any}} props */
function Labelled({ part, field }) {
  const id = useId();
  const { name, path, around, schema, required } = part;
  const wrong = sentence(around.errors[path]);
  const helps = `${help(schema)} ${schema.format === "unix-time" ? say("time.in_zone", { zone: around.zone }) : ""}`.trim();
  const named = {
    id, name: path, required: required || undefined, "aria-invalid": wrong ? "true" : undefined,
    "aria-describedby": wrong || helps ? `${id}-more` : undefined,
  };
  return html`<div class="field" data-type=${schema.format ?? schema.type ?? "any"}>
    <label for=${id}>${schema.label ?? called(name, path)}</label>
    ${field(named)}
    ${(wrong || helps) && html`<small id=${`${id}-more`} class=${wrong ? "wrong" : ""}>${wrong || helps}</small>`}
  </div>`;
}

/** A field's label: specific to its parent if defined. @param {string} name @param {string} path */
const called = (name, path) => {
  const own = `field.${path.split(".").slice(-2).join(".")}`;
  return has(own) ? say(own) : label(name);
};

/** The hint or error of a group of fields. @param {{path: string, schema: Schema, around: Around}} props */
function Help({ path, schema, around }) {
  const wrong = path && sentence(around.errors[path]);
  const helps = help(schema);
  return wrong || helps ? html`<small class=${wrong ? "wrong" : ""} role=${wrong ? "alert" : undefined}>${wrong || helps}</small>` : null;
}

/** The hint of the form's schema: fields of the same name differ between forms. @param {Schema} schema */
const help = (schema) => schema.help ?? schema.description ?? "";

/** The control of a single value. @param {Part} part @param {Record<string, any>} named */
function input({ schema, value, around, change }, named) {
  /** @param {any} event */
  const text = (event) => change(event.target.value);
  if (schema.enum) {
    return html`<select ...${named} value=${value} onChange=${text}>${schema.enum.map((/** @type {any} */ one) => html`<option value=${one}>${schema.titles?.[one] ?? label(String(one))}</option>`)}</select>`;
  }
  if (schema.format === "unix-time") {
    const typed = (/** @type {any} */ { target }) => {
      const at = fromInput(target.value, around.zone);
      // A year changes with each digit, as 0002: storing that would replace the typed text.
      if (at > 0 || !target.value) {
        change(at);
      }
    };
    return html`<input type="datetime-local" ...${named} min="1970-01-01T00:00" max="9999-12-31T23:59" value=${toInput(Number(value ?? 0), around.zone)} onChange=${typed} />`;
  }
  if (schema.format === "time-zone") {
    return html`<input ...${named} list=${`${named.id}-zones`} value=${value ?? ""} onInput=${text} autocomplete="off" />
      <datalist id=${`${named.id}-zones`}>${ZONES.map((zone) => html`<option value=${zone} />`)}</datalist>`;
  }
  if (schema.examples) {
    return html`<input ...${named} list=${`${named.id}-some`} value=${value ?? ""} onInput=${text} autocomplete="off" />
      <datalist id=${`${named.id}-some`}>${schema.examples.map((/** @type {string} */ one) => html`<option value=${one} />`)}</datalist>`;
  }
  if (schema.type === "boolean") {
    return html`<input type="checkbox" role="switch" ...${{ ...named, required: undefined }} checked=${Boolean(value)} onChange=${(/** @type {any} */ event) => change(event.target.checked)} />`;
  }
  if (schema.type === "number" || schema.type === "integer") {
    return html`<${Numeral} ...${named} value=${value} change=${change} min=${schema.minimum} max=${schema.maximum} step=${schema.type === "integer" ? 1 : "any"} placeholder=${schema.default} />`;
  }
  if (schema.type === "string") {
    const bounds = { minLength: schema.minLength, maxLength: schema.maxLength };
    return schema.format === "lines"
      ? html`<textarea ...${named} ...${bounds} value=${value ?? ""} onInput=${text}></textarea>`
      : html`<input ...${named} ...${bounds} value=${value ?? ""} onInput=${text} />`;
  }
  return html`<${Json} named=${named} value=${value} change=${change} />`;
}

/** Parses a number; undefined if empty. @param {string} text */
const said = (text) => (text === "" ? undefined : Number(text));

/**
 * A number input. Keeps the typed text, such as 0.0 on the way to 0.05, while it matches the value.
 * @param {{value: any, change: (value: number | undefined) => void} & Record<string, any>} props
 */
export function Numeral({ value, change, ...more }) {
  const [text, setText] = useState("");
  /** @param {any} event */
  const typed = ({ target }) => {
    setText(target.value);
    change(said(target.value));
  };
  return html`<input type="number" ...${more} value=${said(text) === (value ?? undefined) ? text : String(value ?? "")} onInput=${typed} />`;
}

/** Any other value, edited as JSON. @param {{named: Record<string, any>, value: any, change: (value: any) => void}} props */
function Json({ named, value, change }) {
  const [text, setText] = useState(() => JSON.stringify(value ?? {}, null, 2));
  /** @param {any} event */
  const typed = ({ target }) => {
    setText(target.value);
    try {
      change(JSON.parse(target.value));
      target.setCustomValidity("");
    } catch {
      target.setCustomValidity(say("form.json"));
    }
  };
  return html`<textarea class="code" rows="8" spellcheck="false" ...${named} value=${text} onInput=${typed}></textarea>`;
}
