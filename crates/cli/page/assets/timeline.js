// @ts-check
// The timeline. HTML comes from the server only: this module inserts the lanes that it is sent, and turns what is drawn over
// them into a window of time.

import { load, must, say } from "./live.js";

/** How often the lanes are loaded again while their window ends now, in milliseconds. */
const REFRESH = 2000;
/** How far a pointer has to move before it draws, in pixels. */
const LEAST = 6;

const main = must("main");
const timeline = must("timeline");
const brush = must("brush");

/**
 * Where the pointer began to draw, and over which lanes.
 * @type {{ x: number, left: number, width: number, table: HTMLElement } | null}
 */
let drawn = null;

function refresh() {
  load(`/fragment/timeline${location.search}`, timeline, () => drawn !== null);
}

// What is drawn

/** @param {PointerEvent} event */
function begin(event) {
  const target = event.target instanceof Element ? event.target : null;
  const over = target?.closest("td, thead th:last-child");
  const table = target?.closest("table");
  if (event.button !== 0 || !over || !(table instanceof HTMLElement)) return;
  const lane = over.querySelector("svg");
  if (!lane) return;
  const { left, width } = lane.getBoundingClientRect();
  drawn = { x: event.clientX, left, width, table };
  event.preventDefault();
}

/** @param {PointerEvent} event */
function move(event) {
  if (!drawn) return;
  const [from, until] = between(drawn.x, event.clientX, drawn);
  const { top, height } = drawn.table.getBoundingClientRect();
  brush.hidden = until - from < LEAST;
  Object.assign(brush.style, { left: `${from}px`, width: `${until - from}px`, top: `${top}px`, height: `${height}px` });
}

/** @param {PointerEvent} event */
function end(event) {
  const was = drawn;
  drawn = null;
  brush.hidden = true;
  if (!was) return;
  const [from, until] = between(was.x, event.clientX, was);
  if (until - from < LEAST) return;
  const begins = Number(was.table.dataset.from);
  const length = Number(was.table.dataset.until) - begins;
  const at = (/** @type {number} */ x) => new Date(begins + ((x - was.left) / was.width) * length).toISOString();
  const query = new URLSearchParams(location.search);
  query.delete("last");
  query.set("from", at(from));
  query.set("until", at(until));
  location.assign(`/timeline?${query}`);
}

/**
 * The part of the lanes between two places, from left to right.
 * @param {number} one
 * @param {number} other
 * @param {{ left: number, width: number }} lanes
 * @returns {[number, number]}
 */
function between(one, other, { left, width }) {
  const within = (/** @type {number} */ x) => Math.min(Math.max(x, left), left + width);
  return [within(Math.min(one, other)), within(Math.max(one, other))];
}

timeline.addEventListener("pointerdown", begin);
addEventListener("pointermove", move);
addEventListener("pointerup", end);
addEventListener("pointercancel", () => {
  drawn = null;
  brush.hidden = true;
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !drawn) return;
  drawn = null;
  brush.hidden = true;
});

if (main.dataset.live === "true") {
  refresh();
  setInterval(refresh, REFRESH);
  document.addEventListener("visibilitychange", refresh);
} else {
  say("still", "A fixed time");
}
