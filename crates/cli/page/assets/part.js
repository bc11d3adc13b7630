// @ts-check
// A screen with one part that is loaded again. HTML comes from the server only.

import { load, must } from "./live.js";

/** How often the part is loaded again, in milliseconds. */
const REFRESH = 2000;

const main = must("main");
const part = must("part");

function refresh() {
  load(main.dataset.part ?? "", part);
}

refresh();
setInterval(refresh, REFRESH);
document.addEventListener("visibilitychange", refresh);
