// xterm.js under a policy that allows no inline style, in the colors of the page.

import { FitAddon } from "../vendor/xterm-addon-fit.js";
import { Terminal } from "../vendor/xterm.js";

/** Where xterm.js would write a <style>, the vendored copy writes this: its text is a style sheet of
    the document, which the policy allows. */
class TerminalStyle extends HTMLElement {
  #sheet = new CSSStyleSheet();

  set textContent(text) {
    this.#sheet.replaceSync(text);
  }

  connectedCallback() {
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#sheet];
  }

  disconnectedCallback() {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== this.#sheet);
  }
}
customElements.define("terminal-style", TerminalStyle);

const SCROLLBACK = 5000;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const LIGHT = ["#16201c", "#a82a1c", "#17653f", "#7a5200", "#1d55ad", "#7b3191", "#0b5a61", "#47534d"];
const DARK = ["#3b4642", "#ff9182", "#63c796", "#e3b657", "#90b8ff", "#d7a3ea", "#79c7cb", "#e5ebe7"];
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && system.matches);
}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const palette = isDark() ? DARK : LIGHT;
  const named = NAMES.flatMap((name, at) => [
    [name, palette[at]],
    [`bright${name[0].toUpperCase()}${name.slice(1)}`, palette[at]],
  ]);
  return {
    ...Object.fromEntries(named),
    background: value("--sunken"),
    foreground: value("--ink"),
    cursor: value("--accent"),
    cursorAccent: value("--sunken"),
    selectionBackground: value("--line-2"),
  };
}

/** Returns a terminal in `place`; `leave()` is called for the key that gives the focus back. */
export function openTerminal(place, { leave, resized, typed }) {
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono").trim(),
    fontSize: 13,
    minimumContrastRatio: 4.5,
    screenReaderMode: true,
    scrollback: SCROLLBACK,
    theme: colors(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6" || event.ctrlKey || event.altKey || event.metaKey) return true;
    event.preventDefault();
    if (event.type === "keydown") leave();
    return false;
  });
  terminal.open(place);
  const encoder = new TextEncoder();
  terminal.onData((text) => typed(encoder.encode(text)));
  terminal.onBinary((text) => typed(Uint8Array.from(text, (char) => char.charCodeAt(0))));
  terminal.onResize(resized);
  const paint = () => { terminal.options.theme = colors(); };
  system.addEventListener("change", paint);
  new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  new ResizeObserver(() => place.offsetParent && fit.fit()).observe(place);
  fit.fit();
  return terminal;
}
