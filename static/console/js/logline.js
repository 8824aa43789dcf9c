// The line that is marked: whole and wrapped below the log, and its hit brought into sight.

import { plain } from "./ansi.js";
import { clockTime } from "./frame.js";

const HIT = "log-hit";

/** Shows the line in `element`; hides it for null. */
export function showLine(element, line) {
  element.hidden = !line;
  if (!line) return;
  const attempt = line.attempt > 1 ? `attempt ${line.attempt}` : "";
  const facts = [`line ${line.id}`, line.source, attempt, clockTime(line.time, true)];
  element.querySelector("[data-line-facts]").textContent = facts.filter(Boolean).join(" · ");
  element.querySelector("pre").textContent = plain(line.text);
}

/** Colors the words in the row's text, and scrolls until they are in sight. */
export function showHit(text, words, scroller, { scrolls = true } = {}) {
  const range = words ? find(text, words.toLowerCase()) : null;
  globalThis.CSS?.highlights?.delete(HIT);
  if (!range) return;
  if (globalThis.Highlight) CSS.highlights.set(HIT, new Highlight(range));
  if (!scrolls) return;
  const [hit, frame] = [range.getBoundingClientRect(), scroller.getBoundingClientRect()];
  if (hit.right > frame.right || hit.left < frame.left) {
    scroller.scrollLeft += hit.left - frame.left - frame.width / 2;
  }
  if (hit.bottom > frame.bottom || hit.top < frame.top) { // in a wrapped line taller than the window
    scroller.scrollTop += hit.top - frame.top - frame.height / 2;
  }
}

/** Where the words first stand in an element, across its parts; null if nowhere. */
function find(element, words) {
  const start = element.textContent.toLowerCase().indexOf(words);
  if (start < 0) return null;
  const range = document.createRange();
  let passed = 0;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; passed += node.length, node = walker.nextNode()) {
    const [from, to] = [start - passed, start + words.length - passed];
    if (from >= 0 && from < node.length) range.setStart(node, from);
    if (to > 0 && to <= node.length) {
      range.setEnd(node, to);
      return range;
    }
  }
  return null;
}
