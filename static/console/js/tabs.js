// The parts of a page as tabs (ARIA's pattern). Each tab is a link, so that it works without this, opens
// in another window and is in the address; this shows its panel without loading the page again.

const bar = document.querySelector("[data-tabs]");
const tabs = [...bar.querySelectorAll("[role=tab]")];

function nameOf(tab) {
  return tab.id.slice("tab-".length);
}

function paneOf(tab) {
  return document.getElementById(tab.getAttribute("aria-controls"));
}

function show(chosen) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", tab === chosen);
    tab.tabIndex = tab === chosen ? 0 : -1;
    paneOf(tab).hidden = tab !== chosen;
  }
}

function select(tab) {
  show(tab);
  const address = new URL(location.href);
  address.hash = "";
  if (nameOf(tab) === bar.dataset.firstTab) address.searchParams.delete("tab");
  else address.searchParams.set("tab", nameOf(tab));
  if (address.href !== location.href) history.replaceState(history.state, "", address);
}

function moveFocus(event) {
  const at = tabs.indexOf(event.target);
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: -1 - at, " ": 0 };
  if (!(event.key in step)) return;
  event.preventDefault();
  const next = tabs.at((at + step[event.key]) % tabs.length);
  next.focus();
  select(next);
}

/** Shows the panel with what the address names behind its #, which a hidden panel would keep. */
function followHash() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const tab = target && tabs.find((one) => paneOf(one).contains(target));
  if (!tab || !paneOf(tab).hidden) return;
  show(tab);
  target.scrollIntoView();
}

for (const tab of tabs) {
  tab.addEventListener("keydown", moveFocus);
  tab.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another window is wanted
    event.preventDefault();
    select(tab);
  });
}
addEventListener("hashchange", followHash);
followHash();
