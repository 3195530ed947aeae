// Browser storage: the pending play (per tab) and the player (per browser). No cookies.

/** @typedef {import("./types.js").Session} Session */
/** @typedef {{key: string, payload: object, client_seed: string, at?: number}} Asked */
/** @typedef {{session?: Session, asked?: Asked, until?: number}} Kept */

/** Values that the browser did not store (private windows, sandboxed frames, a full storage). They live as long as the page. */
const memory = new Map();

/** @param {"sessionStorage" | "localStorage"} where @param {string} name @returns {any} */
export function read(where, name) {
  if (memory.has(name)) return memory.get(name);
  try {
    return JSON.parse(window[where].getItem(name) ?? "null");
  } catch {
    return null;
  }
}

/** @param {"sessionStorage" | "localStorage"} where @param {string} name @param {any} value */
export function write(where, name, value) {
  try {
    if (value == null) window[where].removeItem(name);
    else window[where].setItem(name, JSON.stringify(value));
    memory.delete(name);
  } catch {
    memory.set(name, value);
  }
}

/**
 * The end of a session or a login code, in milliseconds of the device's clock, which may be wrong.
 * @param {number} seconds unix, by the service's clock @param {number} most how many milliseconds it lasts at most
 * @param {number} [since] when it was first requested
 */
export function endOf(seconds, most, since = Date.now()) {
  const left = seconds * 1000 - since;
  return since + (left > 0 && left < most ? left : most);
}

/** The pending play of this tab: stored before the request, so that a reload repeats the same request. */
export class Record {
  /** @param {string} name identifies the game: edge, tenant, id */
  constructor(name) {
    this.name = `tombola.play:${name}`;
    /** @type {Kept} */
    this.now = read("sessionStorage", this.name) ?? {};
  }

  /** @param {Kept} now */
  set(now) {
    this.now = now;
    write("sessionStorage", this.name, now.session || now.asked ? now : null);
  }
}

/** The claims of a JWT, unverified; {} if it is none. @param {string} token @returns {any} */
export function claimsOf(token) {
  try {
    return JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return {};
  }
}

/**
 * Who plays: the token that the page gives, else that of the login, else that of the guest whom a start made. These two
 * are the browser's: read anew each time, for all games of a page and all tabs. `login` is what players/auth/verify
 * answers.
 */
export class Identity {
  /** @param {string} name where it is served, tenant */
  constructor(name) {
    this.name = name;
    this.given = "";
  }

  /** @returns {import("./types.js").Login | null} */
  get login() {
    return read("localStorage", `tombola.login:${this.name}`);
  }

  set login(login) {
    write("localStorage", `tombola.login:${this.name}`, login);
  }

  /** @returns {string} */
  get guest() {
    return read("localStorage", `tombola.guest:${this.name}`) ?? "";
  }

  set guest(token) {
    write("localStorage", `tombola.guest:${this.name}`, token || null);
  }

  /** Rejected tokens of guests. They are kept because the service may accept them again (login.js). @returns {string[]} */
  get aside() {
    return read("localStorage", `tombola.aside:${this.name}`) ?? [];
  }

  /** The player's id, the same for all of its tokens; "" for a guest. The page's token itself if it has no `sub`. @returns {string} */
  get player() {
    return this.given ? (claimsOf(this.given).sub ?? this.given) : (this.login?.player.id ?? "");
  }

  get token() {
    return this.given || this.login?.token || this.guest;
  }

  /** Whether the player is a guest, whose rewards are only reachable from this browser. */
  get isGuest() {
    return !this.given && !this.login;
  }

  /** The player's name, or else the contact; "" of a guest. */
  get who() {
    const player = this.login?.player;
    return player?.display_name || player?.contacts[0]?.value || "";
  }
}

/** A unique key. crypto.randomUUID is not available on plain HTTP. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
