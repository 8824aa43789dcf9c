// Makes an element like a newer rendering of it and leaves alone what is the same, so that focus,
// selection and what a reader opened stay. Children with `data-key` are found again by it; those with
// `data-keep` belong to a script and are left as they are.

const READERS = { DETAILS: "open", BUTTON: "hidden" }; // what the reader or a script has decided

export function morph(old, fresh) {
  const focused = document.activeElement;
  morphElement(old, fresh);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function morphElement(old, fresh) {
  if (old.dataset.keep !== undefined || old.isEqualNode(fresh)) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && READERS[old.tagName] !== name) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && READERS[old.tagName] !== name) old.removeAttribute(name);
  }
  morphChildren(old, fresh);
}

function keyOf(node) {
  return node?.dataset?.key;
}

function morphChildren(old, fresh) {
  const keys = new Set([...fresh.children].map(keyOf).filter(Boolean));
  for (const child of [...old.children]) if (keyOf(child) && !keys.has(keyOf(child))) retire(child);
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  const isPassed = (node) => isRetired(node, keys) || (keys.size > 0 && isBlank(node));
  const skip = (node) => { while (node && isPassed(node)) node = node.nextSibling; return node; };
  let at = skip(old.firstChild);
  for (const wanted of [...fresh.childNodes]) {
    if (keys.size > 0 && isBlank(wanted)) continue;
    const found = keyOf(wanted) ? keyed.get(keyOf(wanted)) : at;
    if (!isSameKind(found, wanted)) {
      old.insertBefore(wanted, at);
      continue;
    }
    if (found === at) at = skip(at.nextSibling);
    else old.insertBefore(found, at);
    morphNode(found, wanted);
  }
  while (at) {
    const next = skip(at.nextSibling);
    at.remove();
    at = next;
  }
}

/** Removes what is no longer there, unless a script shows something in it that is not closed yet. */
function retire(child) {
  if (child.querySelector("[data-keep]:not(:empty)")) child.dataset.gone = "";
  else child.remove();
}

function isRetired(node, keys) {
  return node.dataset?.gone !== undefined && !keys.has(keyOf(node));
}

function isBlank(node) {
  return node.nodeType === Node.TEXT_NODE && !node.nodeValue.trim();
}

function isSameKind(found, wanted) {
  return found?.nodeName === wanted.nodeName && keyOf(found) === keyOf(wanted);
}

function morphNode(found, wanted) {
  if (found.nodeType === Node.ELEMENT_NODE) morphElement(found, wanted);
  else if (found.nodeValue !== wanted.nodeValue) found.nodeValue = wanted.nodeValue;
}
