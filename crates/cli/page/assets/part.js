// @ts-check
// A screen with one part that is loaded again. HTML comes from the server only.

import { must, say } from "./live.js";

/** How often the part is loaded again, in milliseconds. */
const REFRESH = 2000;

const main = must("main");
const part = must("part");

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(main.dataset.part ?? "").catch(() => null);
  if (!answer?.ok) return say("broken", "Connecting again");
  const html = await answer.text();
  say("live", "Live");
  // What has not changed stays, with what is selected in it and where it is scrolled to.
  if (html === shown) return;
  shown = html;
  const focused = part.contains(document.activeElement) ? document.activeElement?.id : undefined;
  const unfolded = [...part.querySelectorAll("details[open]")].map((one) => one.id);
  part.innerHTML = html;
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

/** The part as it was sent last. */
let shown = "";

refresh();
setInterval(refresh, REFRESH);
document.addEventListener("visibilitychange", refresh);
