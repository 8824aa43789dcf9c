// One place for keys. A page registers what it can do; typing in a field is never a shortcut.

const actions = new Map(); // keys → { action, isThere }
let prefix = "";

/** Calls `action(event)` for the keys while `isThere()`; an action that returns false did nothing. */
export function onKey(keys, action, isThere = () => true) {
  actions.set(keys, { action, isThere });
}

/** Returns whether the keys do something on this page now. */
export function hasKey(keys) {
  return Boolean(actions.get(keys)?.isThere());
}

function isTyping(target) {
  return target.closest?.("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key !== "Escape" && (isTyping(event.target) || document.querySelector("dialog[open]"))) return;
  const keys = prefix ? `${prefix} ${event.key}` : event.key;
  prefix = !prefix && event.key === "g" ? "g" : "";
  if (!hasKey(keys)) return;
  if (actions.get(keys).action(event) !== false) event.preventDefault();
});
