// The widget's style as a constructed sheet, which needs no CSP exception for inline styles.

const text = `
:host { display: block; container-type: inline-size; font-size: clamp(1rem, .82rem + .4cqi, 2rem); }
:host([hidden]) { display: none; }
.frame {
  position: relative; isolation: isolate; overflow: hidden; box-sizing: border-box;
  display: flex; flex-direction: column; align-items: center; gap: 1.1em;
  padding: clamp(1rem, 4cqi, 2.2em); border-radius: var(--tombola-radius, var(--t-radius, 1.6em));
  font-family: var(--tombola-font, var(--t-font, ui-rounded)), "SF Pro Rounded", system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  line-height: 1.45; text-wrap: balance; word-break: auto-phrase; color: var(--t-text); background: radial-gradient(120% 70% at 50% 0, var(--t-glow), transparent 70%) var(--t-ground);
}
.frame[data-image] { background: linear-gradient(color-mix(in srgb, var(--t-ground) 86%, transparent) 0 0), var(--t-image) center / cover var(--t-ground); }
:host([hosted]) .frame { border-radius: 0; min-height: 100dvh; padding-block: 3.4rem 2rem; justify-content: center; }
.frame *, .frame *::before { box-sizing: border-box; }
.frame > * { position: relative; max-width: 100%; }
.frame > .backdrop { position: absolute; inset: 0; z-index: -1; overflow: hidden; pointer-events: none; }
.backdrop span { position: absolute; opacity: .16; animation: drift 19s ease-in-out infinite alternate; }
@keyframes drift { from { transform: translateY(-.6em) rotate(-12deg); } to { transform: translateY(1.4em) rotate(16deg); } }
h1, h2, h3, .main { hyphens: auto; }
.card :is(h2, h3) { unicode-bidi: plaintext; }
.frame[dir=rtl] * { letter-spacing: 0; }
h1, h2 { margin: 0; font-size: 1.75em; line-height: 1.15; font-weight: 800; letter-spacing: -.015em; text-align: center; overflow-wrap: anywhere; }
.lead { margin: -.5em 0 0; max-width: 34em; text-align: center; color: var(--t-quiet); overflow-wrap: anywhere; }
.logo { display: block; max-width: min(70%, 16em); max-height: 4.5em; object-fit: contain; }
.stage { width: min(100%, max(27em, 52dvh), max(15em, 62dvh)); display: grid; place-items: center; }
.stage:empty { display: none; }
.action { display: flex; flex-direction: column; align-items: center; gap: .55em; min-height: 5.6em; width: 100%; }
button { font: inherit; color: inherit; cursor: pointer; }
button:focus-visible, a:focus-visible, [tabindex]:focus-visible { outline: .2em solid var(--t-text); outline-offset: .18em; }
.main {
  min-height: 3.2em; min-width: min(15em, 100%); padding-block: .7em; padding-inline: min(2em, 5cqi); border: 0; border-radius: 99em;
  font-size: 1.12em; font-weight: 750; color: var(--t-on-primary); overflow-wrap: anywhere;
  background: linear-gradient(var(--t-primary), var(--t-primary)); box-shadow: 0 .28em 0 var(--t-primary-deep), 0 .8em 1.6em -.5em var(--t-primary);
  transition: transform .12s, box-shadow .12s, opacity .2s;
}
.main:hover { transform: translateY(-.08em); }
.main:active { transform: translateY(.2em); box-shadow: 0 .08em 0 var(--t-primary-deep); }
.main[aria-disabled=true] { opacity: .62; cursor: default; transform: none; }
.left { margin: 0; min-height: 1.45em; color: var(--t-quiet); text-align: center; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.card {
  width: min(100%, 27em); padding-block: 1.1em 1.2em; padding-inline: min(1.3em, 5cqi); border-radius: 1.3em; text-align: center;
  background: var(--t-surface); border: 1px solid var(--t-line); box-shadow: 0 1.2em 2.6em -1.6em rgb(0 0 0 / .5);
  animation: rise .45s cubic-bezier(.2, 1.3, .4, 1) both; overflow-wrap: anywhere;
}
@keyframes rise { from { opacity: 0; transform: translateY(1em) scale(.94); } }
.card:focus { outline: none; }
.card :is(h2, h3) { margin: 0 0 .3em; font-size: 1.35em; line-height: 1.2; color: var(--t-strong); }
.card p { margin: .35em 0 0; }
.card .small { margin-top: .9em; }
.card .small.strong { min-height: 2.8em; padding-inline: 1.8em; }
.small.strong { border-color: transparent; background: var(--t-primary); color: var(--t-on-primary); font-weight: 700; box-shadow: 0 .15em 0 var(--t-primary-deep); }
.small.strong:hover { filter: brightness(1.06); }
.frame[data-led] .action .main { color: var(--t-strong); background: var(--t-surface); box-shadow: 0 0 0 1px var(--t-line); }
.tile { position: relative; }
.badge { position: absolute; top: .2em; inset-inline-end: .25em; min-width: 1.6em; padding: .05em .4em; border-radius: 9em; font-size: 1.05em; line-height: 1.5; font-variant-numeric: tabular-nums; color: var(--t-on-primary); background: var(--t-primary); }
.frame[data-closed=ENDED] .action { display: none; }
.countdown { display: flex; justify-content: center; gap: .4em; margin-top: .8em; }
.countdown span { flex: 1 1 0; min-width: 0; max-width: 6em; padding: .4em .2em; border: 1px solid var(--t-line); border-radius: .9em; background: var(--t-ground); }
.countdown b { display: block; font-size: 1.5em; line-height: 1.2; color: var(--t-strong); font-variant-numeric: tabular-nums; }
.countdown small { display: block; font-size: .8em; color: var(--t-quiet); }
.card ul { list-style: none; margin: .3em 0 0; padding: 0; display: grid; gap: .5em; }
.prize { display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: .7em; font-size: 1.15em; font-weight: 650; }
.prize .picture { font-size: 2em; }
img.picture { width: 1.25em; height: 1.25em; object-fit: contain; }
.picture { font-family: "Apple Color Emoji", "Segoe UI Emoji", "Noto Color Emoji", sans-serif; }
.quiet { color: var(--t-quiet); }
.small { min-height: 2.4em; min-width: 2.4em; padding: .3em 1em; border: 1px solid var(--t-line); border-radius: 99em; background: var(--t-surface); color: var(--t-strong); font-weight: 600; }
.small:hover { border-color: var(--t-strong); }
.panels { display: flex; flex-wrap: wrap; justify-content: center; gap: .5em; width: min(100%, 31em); }
.tile { flex: 1 1 6.65em; max-width: 7.2em; padding: .5em .2em; border: 1px solid var(--t-line); border-radius: 1em; background: var(--t-surface); color: var(--t-strong); font-size: .8em; font-weight: 650; line-height: 1.25; overflow-wrap: anywhere; hyphens: auto; }
.tile .picture { display: block; margin-bottom: .1em; font-size: 1.6em; line-height: 1.2; }
.tile:hover { border-color: var(--t-strong); }
.tile[data-panel=login] { flex-basis: 100%; max-width: none; }
.tile[data-panel=login] .picture { display: inline; margin-inline-end: .4em; }
.tile[hidden] { display: none; }
.listen, .heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
[part=title], .lead, .prize span, .under span { unicode-bidi: plaintext; }
.plain { font-size: 5em; line-height: 1; padding: .3em; }
canvas.confetti { position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; z-index: 3; max-width: none; }
@media (prefers-reduced-motion: reduce) {
  .frame *, .frame *::before { animation: none !important; transition: none !important; }
}
@media (forced-colors: active) {
  .main, .small, .tile, .card { border: 1px solid; }
}
`;

export const sheet = new CSSStyleSheet();
sheet.replaceSync(text);
