// That what is declared to pages (tombola.d.ts) is what the element is. Checked by tsc alone; nothing of it runs.
import { TombolaGame as Built } from "../../runtime/web/widget/tombola.js";
import type * as built from "../../runtime/web/widget/types.js";
import type * as declared from "../../runtime/web/widget/v1/tombola.d.ts";

/** Whether each has what the other has. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
/** What browsers call. */
type Browsers = "connectedCallback" | "disconnectedCallback" | "attributeChangedCallback";

export const element: declared.TombolaGame = new Built();
export const parts: Same<Exclude<keyof Built, Browsers>, keyof declared.TombolaGame> = true;
export const render: declared.Render = {} as built.Render;
export const session: declared.Session = {} as built.Session;
export const result: declared.Result = {} as built.Result;
export const standing: declared.Standing = {} as built.Standing;

document.createElement("tombola-game").addEventListener("tombola:won", ({ detail }) => {
  const name: string = detail.rewards[0].name;
  // @ts-expect-error There is no such part of a detail.
  void [name, detail.nothing];
});
