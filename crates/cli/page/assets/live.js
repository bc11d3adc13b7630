// @ts-check
// What all screens have.

/** @param {string} id */
export function must(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`there is no element ${id}`);
  return found;
}

const live = must("live");

/**
 * Says how the page gets its changes.
 * @param {string} state
 * @param {string} text
 */
export function say(state, text) {
  live.dataset.state = state;
  if (live.textContent !== text) live.textContent = text;
}
