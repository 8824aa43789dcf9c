// Where a tab finds its streams: a shared worker, else the tab that holds a lock, else the tab itself.

import { SharedStreams } from "./shared_streams.js";

const CHANNEL = "partita-streams";
const LEADER = "partita-streams-leader";

/** `hub.send(message)` goes to the streams; `receive(message)` gets what they tell this tab. */
export function findHub({ tab, receive, reopen }) {
  const worker = document.body.dataset.streamWorker;
  if ("SharedWorker" in window && worker) return workerHub(worker, receive, tab);
  if (navigator.locks && "BroadcastChannel" in window) return electedHub(tab, receive, reopen);
  return ownHub(receive);
}

function workerHub(url, receive, tab) {
  const { port } = new SharedWorker(url, { type: "module", name: "partita-streams" });
  port.onmessage = ({ data }) => receive(data);
  holdTabLock(tab, (name) => port.postMessage({ type: "lock", name }));
  return { send: (message) => port.postMessage(message) };
}

function holdTabLock(tab, then) {
  const name = `partita-tab-${tab}`;
  navigator.locks?.request(name, () => { then(name); return new Promise(() => {}); });
}

function ownHub(receive) {
  const streams = new SharedStreams();
  return { send: (message) => obey(streams, message, receive) };
}

function obey(streams, message, post) {
  if (message.type === "open") streams.open(message.key, message, post);
  if (message.type === "close") streams.close(message.key);
  if (message.type === "online") streams.retryNow();
}

// The leader ends with its tab; the next one asks every tab to open its streams again, and each
// tab says after which record.
function electedHub(tab, receive, reopen) {
  const channel = new BroadcastChannel(CHANNEL);
  const held = new Promise((done) => { holdTabLock(tab, done); }); // before the leader asks for it
  let streams = null;
  const send = async (message) => {
    await held;
    if (streams) take({ ...message, tab });
    else channel.postMessage({ ...message, tab });
  };
  const post = (to) => (message) => {
    if (to === tab) receive(message);
    else channel.postMessage({ to, message });
  };
  const take = (message) => {
    obey(streams, message, post(message.tab));
    const name = `partita-tab-${message.tab}`;
    if (message.type === "open" && message.tab !== tab) {
      navigator.locks.request(name, () => streams.close(message.key));
    }
  };
  channel.onmessage = ({ data }) => {
    if (data.to === tab) receive(data.message);
    else if (data.elected) reopen();
    else if (streams && data.type) take(data);
  };
  navigator.locks.request(LEADER, () => {
    streams = new SharedStreams();
    channel.postMessage({ elected: tab });
    reopen();
    return new Promise(() => {});
  });
  return { send };
}
