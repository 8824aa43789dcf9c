// Terminal text to styled spans: SGR colours (16, 256, true colour), every other escape stripped.
// ECMA-48 for the grammar; only textContent is ever set, so a log line is never markup.

const ESCAPES = new RegExp(
  [
    "\\x1b\\[([0-?]*)([ -/]*)([@-~])", // CSI: parameters, intermediates, final byte
    "\\x1b[\\]PX^_][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\|$)", // OSC, DCS, SOS, PM, APC up to their end
    "\\x1b[ -/]*[0-~]?", // any other escape
    "\\x9b[0-?]*[ -/]*[@-~]?", // CSI in one character
    "[\\x00-\\x08\\x0b-\\x1a\\x1c-\\x1f\\x7f-\\x9f]", // controls that print nothing
  ].join("|"),
  "g",
);
const BIDI = /[\u202a-\u202e\u2066-\u2069]/g; // would reorder what a reader sees
const FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const UNSET = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
const STEPS = [0, 95, 135, 175, 215, 255]; // the xterm colour cube

/** `[{text, flags: Set, fg, bg}]`; a colour is 0–15 or `#rrggbb`, or undefined. */
export function parse(line) {
  const text = lastOverwrite(line).replace(BIDI, "\ufffd");
  const spans = [];
  let style = { flags: new Set() };
  let from = 0;
  const take = (to) => {
    if (to > from) spans.push({ text: text.slice(from, to), ...style, flags: new Set(style.flags) });
  };
  for (const match of text.matchAll(ESCAPES)) {
    take(match.index);
    from = match.index + match[0].length;
    if (match[3] === "m" && !match[2]) style = applied(style, match[1]);
  }
  take(text.length);
  return spans;
}

/** The text without any escape. */
export function plain(line) {
  return parse(line).map((span) => span.text).join("");
}

/** Of a progress line what a terminal would leave: the text behind the last carriage return. */
function lastOverwrite(line) {
  if (!line.includes("\r")) return line;
  return line.split("\r").filter((part) => part !== "").pop() ?? "";
}

function applied(style, parameters) {
  const codes = parameters === "" ? [0] : parameters.split(/[;:]/).map((code) => Number(code || 0));
  const next = { ...style, flags: new Set(style.flags) };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index];
    if (code === 38 || code === 48) index += extended(next, code === 38 ? "fg" : "bg", codes, index);
    else simple(next, code);
  }
  return next;
}

function simple(style, code) {
  if (code === 0) { style.flags.clear(); style.fg = style.bg = undefined; }
  else if (FLAGS[code]) style.flags.add(FLAGS[code]);
  else if (UNSET[code]) UNSET[code].forEach((flag) => style.flags.delete(flag));
  else if (code === 39) style.fg = undefined;
  else if (code === 49) style.bg = undefined;
  else if (code >= 30 && code <= 37) style.fg = code - 30;
  else if (code >= 40 && code <= 47) style.bg = code - 40;
  else if (code >= 90 && code <= 97) style.fg = code - 82;
  else if (code >= 100 && code <= 107) style.bg = code - 92;
}

/** `38;5;n` and `38;2;r;g;b`; returns how many codes it took. */
function extended(style, layer, codes, index) {
  if (codes[index + 1] === 5) {
    style[layer] = indexed(codes[index + 2] ?? 0);
    return 2;
  }
  if (codes[index + 1] === 2) {
    style[layer] = hex(codes.slice(index + 2, index + 5));
    return 4;
  }
  return codes.length; // unknown form: what follows cannot be read
}

function indexed(number) {
  const value = Math.min(Math.max(number, 0), 255);
  if (value < 16) return value;
  if (value >= 232) return hex(Array(3).fill(8 + (value - 232) * 10));
  const cube = value - 16;
  return hex([STEPS[Math.floor(cube / 36)], STEPS[Math.floor(cube / 6) % 6], STEPS[cube % 6]]);
}

function hex(channels) {
  const [red = 0, green = 0, blue = 0] = channels.map((value) => Math.min(Math.max(value || 0, 0), 255));
  return `#${[red, green, blue].map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Replaces the content of `element` by the line. */
export function render(element, line) {
  element.replaceChildren(...parse(line).map(node));
}

function node({ text, flags, fg, bg }) {
  if (!flags.size && fg === undefined && bg === undefined) return document.createTextNode(text);
  const span = document.createElement("span");
  span.textContent = text;
  span.className = [...flags].map((flag) => `sgr-${flag}`).join(" ");
  const onFixed = typeof bg === "string"; // a background of its own: the palette does not know it
  paint(span, "fg", onFixed && typeof fg !== "string" ? readableOn(bg) : fg);
  paint(span, "bg", bg);
  span.classList.toggle("sgr-exact", onFixed);
  return span;
}

/** Black or white, whichever is easier to read on a colour (relative luminance of WCAG 2). */
function readableOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

function paint(span, layer, colour) {
  if (colour === undefined) return;
  if (typeof colour === "number") span.classList.add(`sgr-${layer}-${colour}`);
  else {
    span.classList.add(`sgr-${layer}`);
    span.style.setProperty(`--${layer}`, colour);
  }
}
