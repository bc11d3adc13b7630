// @ts-check
// What all screens have.

/** @param {string} id */
export function must(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`there is no element ${id}`);
  return found;
}

const live = must("live");

/** The status of answers to someone whose visit has ended: the same address has the form to sign in. */
export const SIGNED_OUT = 401;

/**
 * Says how the page gets its changes.
 * @param {string} state
 * @param {string} text
 */
export function say(state, text) {
  live.dataset.state = state;
  if (live.textContent !== text) live.textContent = text;
}

/**
 * Loads a part of the screen again. What has not changed stays as it is; otherwise the focus, what is unfolded, and where it is
 * scrolled to stay.
 * @param {string} path
 * @param {HTMLElement} part
 * @param {() => boolean} isBusy whether someone is at it, so that it has to stay
 */
export async function load(path, part, isBusy = () => false) {
  if (document.hidden || isBusy()) return;
  const answer = await fetch(path).catch(() => null);
  if (answer?.status === SIGNED_OUT) return location.reload();
  if (!answer?.ok) return say("broken", "Connecting again");
  const html = await answer.text();
  if (isBusy()) return;
  say("live", "Live");
  if (loaded.get(part) === html) return;
  loaded.set(part, html);
  const focused = part.contains(document.activeElement) ? document.activeElement?.id : undefined;
  const unfolded = [...part.querySelectorAll("details[open]")].map((one) => one.id);
  const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  part.innerHTML = html;
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  part.querySelectorAll(".scroll").forEach((one, index) => (one.scrollLeft = scrolled[index] ?? 0));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

/**
 * Each part as it was sent last.
 * @type {WeakMap<HTMLElement, string>}
 */
const loaded = new WeakMap();
