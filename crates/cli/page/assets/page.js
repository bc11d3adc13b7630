// @ts-check
// The live page. HTML comes from the server only: this module sets attributes and texts, inserts the elements that it is
// sent, and moves the focus.

import { SIGNED_OUT, must, say } from "./live.js";

/**
 * A change of the page: an attribute, a text, a new element before another one of its list, or an element that is gone.
 * @typedef {["set", string, string, string]
 *   | ["say", string, string, string]
 *   | ["add", string, string | null, string]
 *   | ["delete", string]} Change
 */

/** How long to wait before a broken connection is opened again, and between two loads of the Drawer, in milliseconds. */
const RETRY = 1000;
const REFRESH = 500;
/** How long after a change what no single object is behind is loaded again: a change of the cloud, and one of a field. */
const PREVIEW = { cloud: 2000, field: 250 };
/** How long it is said what came of an act, in milliseconds. */
const SAID = 20_000;

/**
 * The attributes of a bar that follow those of the element that it is in.
 * @type {Record<string, string>}
 */
const BAR = { "data-used": "value", "data-limit": "max" };

/** The paths that the Drawer shows, and those of them that no single object is behind. */
const SHOWN = /^\/(machine|cluster|cloud|fault|scenario|palette|library|recording)\/[^/]+\/[^/]+$/;
const BROAD = /^\/(palette|library|recording)\//;
const PALETTE = "/palette/";

const main = must("main");
const drawer = must("drawer");
const hint = must("hint");
const outcome = must("outcome");

/** The path of the page without a Drawer. */
const home = main.dataset.namespace ? `/ns/${encodeURIComponent(main.dataset.namespace)}` : "/";

/** @type {EventSource | null} */
let source = null;
/** @type {number | undefined} */
let again;
/** The path of what the Drawer shows, or nothing. */
let selected = SHOWN.test(location.pathname) ? here() : "";
/** @type {number | undefined} */
let refresh;
/** @type {number | undefined} */
let forget;
/**
 * The element that the Drawer shows.
 * @type {Element | null}
 */
let current = null;
/**
 * The cell where the Tab key enters the grid: the only one with a place in the order of that key.
 * @type {HTMLElement | null}
 */
let entry = null;

/** The path of the page, with what it says about a Fault. */
function here() {
  return location.pathname + location.search;
}

// The stream

function connect() {
  clearTimeout(again);
  source?.close();
  source = null;
  // A browser opens six connections to a server; pages that are not seen leave them to others.
  if (document.hidden) return say("still", "Paused");
  const query = new URLSearchParams({
    namespace: main.dataset.namespace ?? "",
    since: main.dataset.since ?? "",
  });
  const opened = new EventSource(`/stream?${query}`);
  source = opened;
  opened.addEventListener("open", () => say("live", "Live"));
  opened.addEventListener("changes", (event) => {
    /** @type {Change[]} */
    const changes = JSON.parse(event.data);
    const moves = changes.some((change) => change[0] === "add" || change[0] === "delete");
    receive(event, moves, () => changes.forEach(apply));
  });
  opened.addEventListener("snapshot", (event) => {
    receive(event, true, () => {
      main.innerHTML = JSON.parse(event.data);
      fresh();
    });
  });
  opened.addEventListener("error", () => {
    say("broken", "Connecting again");
    if (opened.readyState === EventSource.CLOSED) again = setTimeout(reconnect, RETRY);
  });
}

async function reconnect() {
  const answer = await fetch(here(), { method: "HEAD" }).catch(() => null);
  if (answer?.status === SIGNED_OUT) return location.reload();
  connect();
}

/**
 * Takes a message. If its elements move, the focus stays.
 * @param {MessageEvent} event
 * @param {boolean} moves
 * @param {() => void} change
 */
function receive(event, moves, change) {
  const focused = document.activeElement;
  const id = moves && main.contains(focused) ? focused?.id : undefined;
  const at = id ? cells().findIndex((cell) => cell === focused) : -1;
  change();
  main.dataset.since = event.lastEventId;
  if (BROAD.test(selected)) later(PREVIEW.cloud);
  if (!moves) return;
  mark();
  tick();
  if (!id || document.activeElement !== document.body) return;
  const rest = cells();
  const next = document.getElementById(id) ?? (at < 0 ? null : rest[Math.min(at, rest.length - 1)]);
  next?.focus({ preventScroll: true });
}

/** @param {Change} change */
function apply(change) {
  switch (change[0]) {
    case "set": {
      const element = document.getElementById(change[1]);
      element?.setAttribute(change[2], change[3]);
      const ofBar = BAR[change[2]];
      if (ofBar) element?.querySelector("progress")?.setAttribute(ofBar, change[3]);
      if (element && element.id === shown()) later(REFRESH);
      break;
    }
    case "say": {
      const place = document.getElementById(change[1])?.querySelector(`[data-k="${change[2]}"]`);
      if (place) place.textContent = change[3];
      break;
    }
    case "add": {
      const template = document.createElement("template");
      template.innerHTML = change[3];
      leaveOut(template.content);
      const before = change[2] ? document.getElementById(change[2]) : null;
      document.getElementById(change[1])?.insertBefore(template.content, before ? box(before) : null);
      break;
    }
    case "delete": {
      const element = document.getElementById(change[1]);
      if (element) box(element).remove();
      if (change[1] === shown()) later(REFRESH);
      break;
    }
  }
}

/**
 * What stands in the list: the element, or the item that it is in.
 * @param {Element} element
 */
function box(element) {
  return element.closest("li") ?? element;
}

// The Drawer

/** The id of the element that the Drawer shows. */
function shown() {
  return drawer.querySelector("[data-element]")?.getAttribute("data-element") ?? "";
}

/** Marks the element that the Drawer shows, and makes one cell the place where the Tab key enters the grid. */
function mark() {
  const id = selected ? shown() : "";
  const element = id ? document.getElementById(id) : null;
  if (element !== current) {
    current?.removeAttribute("aria-current");
    element?.setAttribute("aria-current", "true");
    current = element;
  }
  const focused = document.activeElement;
  const first = /** @type {HTMLElement | null} */ (main.querySelector("a.m"));
  enterAt([focused, element].find(isCell) ?? first);
}

/** @param {HTMLElement | null} cell */
function enterAt(cell) {
  if (cell === entry) return;
  if (entry) entry.tabIndex = -1;
  if (cell) cell.tabIndex = 0;
  entry = cell;
}

/**
 * Takes the cells out of the order of the Tab key.
 * @param {ParentNode} part
 */
function leaveOut(part) {
  for (const cell of /** @type {NodeListOf<HTMLElement>} */ (part.querySelectorAll("a.m"))) cell.tabIndex = -1;
}

/** Marks what the Fault of the palette would hit. */
function aim() {
  const hits = document.getElementById("preview")?.dataset.hits ?? "";
  const ids = new Set(hits.split(" "));
  for (const element of main.querySelectorAll("[data-aimed]")) {
    if (!ids.has(element.id)) element.removeAttribute("data-aimed");
  }
  for (const id of ids) document.getElementById(id)?.setAttribute("data-aimed", "true");
}

/** Begins with the elements that the page has now. */
function fresh() {
  current = entry = null;
  leaveOut(main);
}

/**
 * @param {Element | null} element
 * @returns {element is HTMLElement}
 */
function isCell(element) {
  return element instanceof HTMLElement && element.matches("a.m") && main.contains(element);
}

/**
 * Shows an object.
 * @param {string} path
 * @param {boolean} focus
 */
async function show(path, focus) {
  selected = path;
  const answer = await fetch(`/fragment${path}`).catch(() => null);
  if (selected !== path || !answer) return;
  if (answer.status === SIGNED_OUT) return location.reload();
  if (!answer.headers.get("content-type")?.startsWith("text/html")) return;
  const html = await answer.text();
  if (selected !== path) return;
  const inside = drawer.contains(document.activeElement) ? document.activeElement?.id : undefined;
  const unfolded = [...drawer.querySelectorAll("details[open]")].map((one) => one.id);
  fill(html);
  drawer.hidden = false;
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  mark();
  aim();
  if (focus) must("drawer-title").focus();
  else if (inside) document.getElementById(inside)?.focus({ preventScroll: true });
}

/**
 * Shows what the Drawer was sent. A form that is the same as before stays: someone may be filling it in.
 * @param {string} html
 */
function fill(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const kept = document.getElementById("act");
  const made = template.content.getElementById("act");
  const before = kept?.parentElement;
  const after = made?.parentElement;
  if (!kept || !made || !before || !after || kept.dataset.key !== made.dataset.key) {
    drawer.replaceChildren(template.content);
    return;
  }
  while (before.firstChild && before.firstChild !== kept) before.firstChild.remove();
  while (kept.nextSibling) kept.nextSibling.remove();
  while (after.firstChild && after.firstChild !== made) before.insertBefore(after.firstChild, kept);
  while (made.nextSibling) before.append(made.nextSibling);
}

/**
 * Sends a form, and says what came of it.
 * @param {HTMLFormElement} form
 * @param {HTMLElement | null} button
 */
async function act(form, button) {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) fields.append(name, String(value));
  if (button instanceof HTMLButtonElement) fields.append(button.name, button.value);
  const request = { method: "POST", body: fields, headers: { "nephele-fragment": "1" } };
  const answer = await fetch(form.action, request).catch(() => null);
  if (answer?.status === SIGNED_OUT) return location.reload();
  if (answer?.headers.get("content-type")?.startsWith("text/html")) outcome.innerHTML = await answer.text();
  else outcome.textContent = answer ? await answer.text() : "The page does not answer.";
  clearTimeout(forget);
  forget = setTimeout(unsay, SAID);
  if (selected) show(selected, false);
}

/** Says no longer what came of an act, unless someone is at it. */
function unsay() {
  if (outcome.matches(":hover, :focus-within")) forget = setTimeout(unsay, SAID);
  else outcome.replaceChildren();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.matches(".act")) return;
  event.preventDefault();
  if (event.submitter?.id === "palette-preview") preview(form, 0);
  else act(form, event.submitter);
});

/**
 * Loads the Drawer again after some milliseconds, unless it will be loaded anyway.
 * @param {number} wait
 */
function later(wait) {
  refresh ??= setTimeout(() => {
    refresh = undefined;
    if (selected) show(selected, false);
  }, wait);
}

/**
 * Keeps in the address what the palette says, and shows after some milliseconds what it would hit.
 * @param {HTMLFormElement} form
 * @param {number} wait
 */
function preview(form, wait) {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (name !== "token") query.append(name, String(value));
  selected = `${location.pathname}?${query}`;
  history.replaceState(null, "", selected);
  clearTimeout(refresh);
  refresh = undefined;
  later(wait);
}

document.addEventListener("input", (event) => {
  const form = event.target instanceof Element ? event.target.closest("form") : null;
  if (form && selected.startsWith(PALETTE) && drawer.contains(form)) preview(form, PREVIEW.field);
});

function close() {
  const broad = BROAD.exec(selected);
  const opener = document.getElementById(broad?.[1] ?? shown());
  selected = "";
  drawer.hidden = true;
  drawer.replaceChildren();
  mark();
  aim();
  const link = opener?.matches("a") ? opener : opener?.querySelector("a");
  (link ?? cells()[0])?.focus();
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const copy = target?.closest("[data-copy]");
  if (copy) {
    const text = copy.parentElement?.querySelector("pre")?.textContent ?? "";
    navigator.clipboard.writeText(text).then(
      () => (copy.textContent = "Copied"),
      () => (copy.textContent = "Select the text below"),
    );
    return;
  }
  const link = target?.closest("a");
  if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.id === "drawer-close") {
    event.preventDefault();
    history.pushState(null, "", home);
    close();
  } else if (SHOWN.test(link.pathname) && link.origin === location.origin) {
    event.preventDefault();
    open(link.pathname + link.search);
  }
});

/**
 * Shows an object, or a palette, and adds it to the history.
 * @param {string} path
 */
function open(path) {
  if (path !== here()) history.pushState(null, "", path);
  show(path, true);
}

addEventListener("popstate", () => {
  if (SHOWN.test(location.pathname)) show(here(), true);
  else if (selected) close();
});

// The keyboard

function cells() {
  return /** @type {HTMLElement[]} */ ([...main.querySelectorAll("a.m")]);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && selected) {
    history.pushState(null, "", home);
    close();
    return;
  }
  const from = event.target;
  if (!(from instanceof HTMLElement) || !from.matches("a.m") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "f") document.getElementById("palette")?.click();
  const to = neighbour(from, event.key);
  if (to === null) return;
  event.preventDefault();
  enterAt(to);
  to.focus();
});

/**
 * The cell that a key moves to; null for other keys.
 * @param {HTMLElement} from
 * @param {string} key
 */
function neighbour(from, key) {
  const all = cells();
  const at = all.indexOf(from);
  /** @type {Record<string, number>} */
  const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 };
  const step = steps[key];
  if (step !== undefined) return all[Math.min(Math.max(step, 0), all.length - 1)] ?? null;
  return key === "ArrowUp" || key === "ArrowDown" ? beside(from, all, key === "ArrowUp" ? -1 : 1) : null;
}

/**
 * The nearest cell of the next line in a direction.
 * @param {HTMLElement} from
 * @param {HTMLElement[]} all
 * @param {number} direction
 */
function beside(from, all, direction) {
  const here = from.getBoundingClientRect();
  let best = from;
  let least = Infinity;
  for (const cell of all) {
    const there = cell.getBoundingClientRect();
    const down = (there.top - here.top) * direction;
    const away = down * 1000 + Math.abs(there.left - here.left);
    if (down > here.height / 2 && away < least) {
      least = away;
      best = cell;
    }
  }
  return best;
}

/**
 * What a cell is, for people who see only its form.
 * @param {Event} event
 */
function describe(event) {
  const cell = event.target instanceof Element ? event.target.closest("a.m") : null;
  hint.textContent = cell?.getAttribute("aria-label") ?? "";
}
addEventListener("focusin", describe);
addEventListener("pointerover", describe);

// Time

/** The times of clouds, rate seconds for each of ours since the clock last changed, and the time until Faults end. */
function tick() {
  for (const cloud of /** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(".cloud"))) {
    const { rate, since, time, paused } = cloud.dataset;
    const passed = paused === "true" ? 0 : (Date.now() - Number(since)) * Number(rate);
    const now = Number(since) ? Number(time) + passed : Date.now();
    const place = cloud.querySelector("time");
    const text = new Date(now).toISOString().slice(11, 19);
    if (place && place.textContent !== text) place.textContent = text;
  }
  for (const fault of /** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(".fault"))) {
    const ends = Number(fault.dataset.ends);
    const left = Math.max(0, Math.ceil((ends - Date.now()) / 1000));
    const text = ends ? `${left}s left` : "";
    const place = fault.querySelector(".left");
    if (place && place.textContent !== text) place.textContent = text;
  }
}

document.addEventListener("visibilitychange", connect);
setInterval(tick, 1000);
fresh();
mark();
tick();
connect();
