// One place for keys. A page registers what it can do; typing in a field is never a shortcut.

const actions = new Map();
let prefix = "";

export function onKey(keys, action) {
  actions.set(keys, action);
}

function isTyping(target) {
  return target.closest?.("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key !== "Escape" && (isTyping(event.target) || document.querySelector("dialog[open]"))) return;
  const keys = prefix ? `${prefix} ${event.key}` : event.key;
  prefix = !prefix && event.key === "g" ? "g" : "";
  const action = actions.get(keys);
  if (!action) return;
  if (action(event) !== false) event.preventDefault();
});
