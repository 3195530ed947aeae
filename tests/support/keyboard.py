"""A page by the keys alone: what they reach, in which order, and whether it shows where one is."""

from typing import Any, Final

from tests.support.chromium import Locator, Page

LISTENS: Final = """(() => {
    // Who listens to the mouse: nothing else tells a <div> that can be clicked from one that cannot.
    const mouse = /^(click|dblclick|mousedown|mouseup|mouseenter|mouseover|pointerdown|pointerup|dragstart|drop)$/;
    const known = window.byMouse = new WeakMap();
    for (const [name, act] of [["addEventListener", "add"], ["removeEventListener", "delete"]]) {
        const own = EventTarget.prototype[name];
        EventTarget.prototype[name] = function (type, ...rest) {
            if (this instanceof Element && mouse.test(type)) {
                known.set(this, known.get(this) ?? new Set());
                known.get(this)[act](type);
            }
            return own.call(this, type, ...rest);
        };
    }
    const there = (event) => event.key === "Tab" && document.activeElement === window.goal && event.preventDefault();
    addEventListener("keydown", there, true);
})()"""

WALK: Final = """([within, back]) => {
    const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, audio, video," +
        " [contenteditable=true], [role=button], [role=link], [role=tab], [tabindex='0']";
    const both = (one) => one.shadowRoot ? [one, ...flat(one.shadowRoot)] : [one];
    const flat = (root) => [...root.querySelectorAll("*")].flatMap(both);
    const deep = () => {
        let at = document.activeElement;
        while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
        return at === document.body ? null : at;
    };
    const text = (one) => (one.getAttribute("aria-label") || one.textContent || one.name || "").trim().slice(0, 40);
    const named = (one) => `<${one.localName}${one.className ? `.${one.className}` : ""}> "${text(one)}"`;
    const looks = (one) => {
        const style = getComputedStyle(one), { outlineColor: line } = style;
        const none = style.outlineStyle === "none" || style.outlineWidth === "0px" || line.endsWith(", 0)");
        return [none ? "" : line, style.boxShadow, style.borderColor, style.backgroundColor].join();
    };
    const shown = (one) => {
        const box = [...one.getClientRects()].find(({ width, height }) => width && height);
        if (!box) return false;
        const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
        const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
        if (right - left < Math.min(box.width, 8) || bottom - top < Math.min(box.height, 8)) return false;
        const hit = one.getRootNode().elementFromPoint((left + right) / 2, (top + bottom) / 2);
        return !!hit && (one.contains(hit) || hit.contains(one) || !!one.labels?.[0]?.contains(hit));
    };
    // Of a game within the page only what is a control: a press on its picture does what its button does.
    const usable = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && !one.inert
        && (one.matches(CONTROLS) || (one.getRootNode() === document && window.byMouse.get(one)?.size > 0));
    const root = within ? document.querySelector(within) : document;
    const stops = [], wrong = [], unseen = [], of = new Map();
    let last = null, rests = 0, over = false;
    const stop = (at) => {
        if (over || !at) {
            over ||= stops.length > 0;
            return;
        }
        if (at === last) {
            over = ++rests > (/^(date|time)/.test(at.type) ? 9 : 0); // A date is several fields.
            if (over) wrong.push(`keeps the focus: ${named(at)}`);
            return;
        }
        [last, rests] = [at, 0];
        if (of.has(at)) {
            if (at !== stops[0].at) wrong.push(`goes back to ${named(at)}`);
            over = true;
            return;
        }
        const { left, right, top, bottom } = at.getBoundingClientRect();
        let y = scrollY; // With what a dialog has scrolled.
        for (let up = at; up && up !== document.body; up = up.parentElement ?? up.getRootNode().host) y += up.scrollTop;
        of.set(at, stops.length);
        stops.push({ at, looks: looks(at), left, right, top: top + y, bottom: bottom + y });
        if (!shown(at)) unseen.push(at);
        if (within && !root.contains(at)) wrong.push(`is outside of ${within}: ${named(at)}`);
    };
    const pressed = (event) => {
        if (event.key === "Tab") stop(deep());
        if (over) event.preventDefault(); // Out of the page and back in is the browser's matter, and takes its time.
    };
    addEventListener("keydown", pressed, true);
    window.walk = {
        over: () => over,
        end: () => {
            removeEventListener("keydown", pressed, true);
            for (const at of unseen.filter((one) => one.isConnected)) {
                at.focus(); // Again, since the page may have moved meanwhile.
                if (!shown(at)) wrong.push(`is reached and not to be seen: ${named(at)}`);
            }
            deep()?.blur();
            const all = flat(root), places = new Map(all.map((one, i) => [one, i]));
            // As good as reached: another link to there, a field in a place to drop onto, a chart's numbers.
            const twin = (one) => one.matches("a[href]") && stops.some(({ at }) => at.href === one.href);
            const around = (one) => !one.matches(CONTROLS) && stops.some(({ at }) => one.contains(at));
            const numbers = (one) => of.has(one.closest("[role=img]")?.closest("section")?.querySelector("summary"));
            for (const one of all.filter(usable)) {
                if (![(it) => of.has(it), twin, around, numbers].some((is) => is(one))) {
                    wrong.push(`is not reached: ${named(one)}`);
                }
                if (one.tabIndex > 0) wrong.push(`has a place of its own in the order: ${named(one)}`);
            }
            const inOrder = back ? stops.reverse() : stops;
            inOrder.forEach((here, i) => {
                const before = inOrder[i - 1];
                if (!here.at.isConnected) return;
                if (looks(here.at) === here.looks) wrong.push(`is not marked: ${named(here.at)}`);
                if (!before?.at.isConnected) return;
                const above = here.bottom <= before.top && here.left < before.right - 1;
                const left = here.top < before.bottom && here.bottom > before.top && here.right <= before.left;
                if (above || left || places.get(here.at) < places.get(before.at)) {
                    wrong.push(`comes after ${named(before.at)}: ${named(here.at)}`);
                }
            });
            return { stops: stops.map(({ at }) => named(at)), wrong };
        },
    };
}"""
"""Watches a walk: `walk.over()` when it is round, `walk.end()` what was found. Each stop is looked at when it is left:
by then it was scrolled to."""

STOPS_MAX: Final = 600
AT_ONCE: Final = 15


async def walk(page: Page, within: str = "", *, back: bool = False) -> tuple[list[str], list[str]]:
    """Goes once around by Tab, or back by Shift+Tab, never leaving `within`: (places passed, problems)."""
    await page.evaluate(WALK, [within, back])
    for _ in range(0, STOPS_MAX, AT_ONCE):
        for _ in range(AT_ONCE):
            await page.keyboard.press("Shift+Tab" if back else "Tab")
        if await page.evaluate("walk.over()"):
            break
    else:
        raise AssertionError(f"there is no end: {await page.evaluate('walk.end()')}")
    found: dict[str, Any] = await page.evaluate("walk.end()")
    return found["stops"], found["wrong"]


async def tab_to(page: Page, target: Locator, key: str = "Tab") -> None:
    """Presses Tab, or Shift+Tab, until the focus is there, from where it goes no further."""
    await target.evaluate("(it) => { window.goal = it; }")
    for _ in range(0, STOPS_MAX, AT_ONCE):
        if await page.evaluate("document.activeElement === goal"):
            await page.evaluate("window.goal = null")
            return
        for _ in range(AT_ONCE):
            await page.keyboard.press(key)
    raise AssertionError(f"{target} is not reached by {key}")
