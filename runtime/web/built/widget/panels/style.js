var e=`
.frame > dialog { position: fixed; max-width: none; }
dialog {
  width: min(36em, calc(100vw - 1.5em)); max-height: min(48em, calc(100dvh - 1.5em)); padding: 0; border: 0; border-radius: 1.4em; overflow: auto;
  color: var(--t-text); background: var(--t-ground); box-shadow: 0 2em 5em -1em rgb(0 0 0 / .6); overscroll-behavior: contain; scroll-padding-block: 5em 4em;
}
dialog[open] { animation: lift .28s cubic-bezier(.2, .9, .3, 1) both; }
@keyframes lift { from { opacity: 0; transform: translateY(1.2em); } }
dialog::backdrop { background: rgb(8 8 16 / .6); }
dialog header { position: sticky; top: 0; z-index: 3; display: flex; align-items: center; gap: .7em; padding-block: .75em; padding-inline: 1.2em .9em; background: var(--t-ground); border-bottom: 1px solid var(--t-line); }
dialog h2 { flex: 1; font-size: 1.3em; text-align: start; }
dialog h2:focus-visible { outline: none; }
dialog h3 { margin: 0; font-size: 1.05em; line-height: 1.3; overflow-wrap: anywhere; }
.round { flex: none; width: 2.6em; height: 2.6em; padding: 0; border: 1px solid var(--t-line); border-radius: 50%; background: var(--t-surface); color: var(--t-text); font-weight: 700; }
.round:hover { border-color: var(--t-strong); }
.round[hidden], .qr[hidden] { display: none; }
.panel li span, .item strong, .prize-card strong, .item .quiet, .chip, h3, .choices button, .balance span, .notice p { unicode-bidi: plaintext; text-align: -webkit-match-parent; text-align: match-parent; }
code, .panel dd { direction: ltr; unicode-bidi: isolate; }
.body { padding: 1.1em 1.2em 1.4em; }
.panel { display: grid; gap: .9em; overflow-wrap: anywhere; }
.panel > *, .panel > div > * { min-width: 0; }
.panel p { margin: 0; }
.panel .small { padding: .45em 1.05em; line-height: 1.25; }
.panel .small[aria-disabled=true] { opacity: .65; cursor: default; }
.panel .small[aria-pressed=true] { border-color: var(--t-strong); box-shadow: inset 0 0 0 1px var(--t-strong); }
.panel button.more { justify-self: center; display: block; margin: .9em auto 0; }
.center { text-align: center; }
.items { margin: 0; padding: 0; list-style: none; display: grid; gap: .6em; }
.item {
  display: grid; grid-template-columns: auto minmax(0, 1fr) auto; align-items: center; column-gap: .9em; row-gap: .7em; padding: .8em 1em;
  border: 1px solid var(--t-line); border-radius: 1.1em; background: var(--t-surface);
}
.item > .picture { display: grid; place-items: center; width: 1.7em; height: 1.7em; overflow: hidden; border-radius: .5em; font-size: 1.6em; background: var(--t-accent-soft); }
.item > img.picture { padding: .2em; }
.item > .facts:first-child { grid-column: 1 / 3; }
.item strong { display: block; line-height: 1.25; }
.facts .quiet { margin-top: .15em; font-size: .88em; line-height: 1.35; white-space: pre-line; overflow-wrap: anywhere; }
.side { display: grid; justify-items: end; gap: .2em; text-align: end; }
.item > :is(.about, .terms) { grid-column: 1 / -1; }
.mails { display: grid; padding: .4em 0; } .mails label { display: flex; align-items: center; gap: .7em; min-height: 2.75em; cursor: pointer; }
.about, .terms { margin: 0; font-size: .92em; white-space: pre-line; overflow-wrap: anywhere; } .terms p { margin: .3em 0 0; } .terms summary { cursor: pointer; }
.item > .won-code, .item > .progress { grid-column: 1 / -1; }
.doer { display: grid; justify-items: end; gap: .5em; max-width: 15em; }
.doer > .chip { justify-self: start; }
.chips { display: flex; flex-wrap: wrap; gap: .35em; margin-top: .3em; }
.chip { display: inline-block; padding: .12em .7em; border: 1px solid var(--t-line); border-radius: 99em; font-size: .82rem; font-size: .8em; font-weight: 650; line-height: 1.5; color: var(--t-quiet); background: var(--t-ground); }
.quiet .chip { font-size: .92em; }
.chip[data-kind=good], .chip[data-kind=due] { color: var(--t-strong); border-color: currentColor; }
.chip[data-kind=good]::before { content: "✓ "; }
.refusal, .notice { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: .6em 1em; padding: .75em 1em; border-radius: 1em; border: 1px solid var(--t-line); border-inline-start: .35em solid var(--t-strong); background: var(--t-surface); }
.doer .refusal { padding: .5em .8em; font-size: .88em; text-align: start; }
.blank { display: grid; justify-items: center; gap: .9em; padding: 1.6em 1em 1.4em; text-align: center; color: var(--t-quiet); }
.blank .picture { font-size: 3.2em; line-height: 1.1; }
.blank p { max-width: 26em; }
.skeleton { display: grid; gap: .6em; }
.skeleton div { height: 4.4em; border-radius: 1.1em; border: 1px solid var(--t-line); background: linear-gradient(100deg, var(--t-surface) 35%, var(--t-accent-soft) 50%, var(--t-surface) 65%) 0 0 / 250% 100%; animation: shimmer 1.4s linear infinite; }
@keyframes shimmer { from { background-position: 120% 0; } to { background-position: -60% 0; } }
.busy { justify-self: center; width: 2.4em; height: 2.4em; margin: 3em auto; border: .3em solid var(--t-line); border-top-color: var(--t-primary); border-radius: 50%; animation: turn 1s linear infinite; }
@keyframes turn { to { transform: rotate(1turn); } }
.grid { margin: 0; padding: 0; list-style: none; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 8.4em), 1fr)); gap: .7em; }
.prize-card { display: flex; flex-direction: column; align-items: center; justify-content: center; gap: .45em; padding: 1.1em .8em; border: 1px solid var(--t-line); border-radius: 1.2em; background: linear-gradient(var(--t-accent-soft), var(--t-surface) 62%); text-align: center; line-height: 1.25; }
.prize-card .picture { font-size: 2.6em; line-height: 1.15; }
.prize-card[data-gone] { background: var(--t-surface); }
.prize-card[data-gone] .picture { filter: grayscale(1); opacity: .6; }
.progress { display: grid; gap: .35em; font-size: .88em; }
.bar { height: .8em; border-radius: 99em; overflow: hidden; border: 1px solid var(--t-quiet); background: var(--t-ground); }
.bar div { height: 100%; border-radius: 99em; background: linear-gradient(90deg, var(--t-strong), var(--t-primary)); }
.left-now { font-weight: 700; text-align: center; font-variant-numeric: tabular-nums; }
.left-now:empty { display: none; }
.head { display: grid; gap: .25em; margin-bottom: .8em; }
.choices { margin-bottom: .2em; }
.choices, .panel .row { display: flex; flex-wrap: wrap; gap: .5em; margin: 0; }
.ranking { gap: .4em; }
.place { padding: .5em .9em; grid-template-columns: 2.4em minmax(0, 1fr) auto; font-variant-numeric: tabular-nums; }
.rank { text-align: center; font-weight: 700; color: var(--t-quiet); position: relative; }
.rank .picture { font-size: 1.5em; line-height: 1; }
.place .name { display: flex; flex-wrap: wrap; align-items: center; gap: .15em .6em; min-width: 0; font-weight: 600; }
.place[data-me] { position: sticky; top: 4.4em; bottom: .6em; z-index: 2; border: .14em solid var(--t-strong); background: var(--t-surface); box-shadow: 0 .4em 1.2em -.4em rgb(0 0 0 / .45); }
.balances { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 8em), 1fr)); gap: .6em; }
.balance { display: grid; justify-items: center; gap: .1em; padding: .9em .6em; border: 1px solid var(--t-line); border-radius: 1.2em; background: linear-gradient(var(--t-accent-soft), var(--t-surface) 70%); overflow-wrap: anywhere; }
.balance .picture { font-size: 1.7em; line-height: 1.2; }
.balance strong { font-size: 1.7em; line-height: 1.15; font-variant-numeric: tabular-nums; }
.balance[aria-pressed=true] { border-color: var(--t-strong); box-shadow: inset 0 0 0 .1em var(--t-strong); }
.amount { font-variant-numeric: tabular-nums; font-size: 1.1em; }
.amount[data-kind=more] { color: var(--t-strong); }
.side .quiet { font-size: .82em; }
.won-code { display: grid; justify-items: center; gap: .7em; padding-top: .8em; border-top: 1px dashed var(--t-line); }
.won-code code { max-width: 100%; padding: .4em .9em; border: .12em dashed var(--t-strong); border-radius: .6em; background: var(--t-ground); font-family: ui-monospace, "Liberation Mono", monospace; font-size: 1.15em; letter-spacing: .06em; user-select: all; }
.won-code .row { justify-content: center; }
.qr { padding: .5em; border-radius: .8em; background: #fff; }
.qr svg { display: block; width: min(13em, 60vw); height: auto; }
.panel dl { margin: 0; padding: .9em 1em; border: 1px solid var(--t-line); border-radius: 1.1em; background: var(--t-surface); }
.panel dt { margin-top: .8em; color: var(--t-quiet); font-size: .88em; }
.panel dt:first-child { margin-top: 0; }
.panel dd { margin: .15em 0 0; font-family: ui-monospace, "Liberation Mono", monospace; font-size: .85em; overflow-wrap: anywhere; }
.steps { margin: 0; padding: 0; list-style: none; display: grid; gap: .5em; }
.steps li { display: flex; align-items: flex-start; gap: .7em; padding: .7em .9em; border: 1px solid var(--t-line); border-radius: 1em; background: var(--t-surface); }
.steps li:last-child { font-weight: 700; }
.steps:empty { display: none; }
@media (max-width: 34em) {
  dialog { width: 100vw; margin-block: auto 0; margin-inline: 0; max-height: calc(100dvh - 1.5em); border-radius: 1.4em 1.4em 0 0; }
  .body { padding: 1em 1em 1.3em; }
  .item > .side:has(.doer) { grid-column: 1 / -1; justify-items: stretch; text-align: start; }
  .item > .side:has(> .chip) { grid-column: 2 / -1; justify-items: start; margin-top: -.3em; }
  .side .doer { justify-items: stretch; max-width: none; }
  .doer > .small { width: 100%; }
}
@media (forced-colors: active) {
  .item, .prize-card, .balance, .chip, .round, .bar, .place[data-me] { border: 1px solid; }
  .bar div { background: Highlight; forced-color-adjust: none; }
}
`,i=new CSSStyleSheet;i.replaceSync(e);export{i as sheet};
