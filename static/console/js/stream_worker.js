// The shared worker: one for all tabs of a browser.

import { SharedStreams } from "./shared_streams.js";

const streams = new SharedStreams();

function forget(keys) {
  for (const key of keys) streams.close(key);
}

addEventListener("connect", ({ ports: [port] }) => {
  const keys = new Set();
  port.onmessage = ({ data }) => {
    if (data.type === "open") {
      keys.add(data.key);
      streams.open(data.key, data, (message) => port.postMessage(message));
      return;
    }
    if (data.type === "online") return streams.retryNow();
    if (data.type === "close") forget([data.key]);
    // A tab that crashed says nothing, but it holds its lock no longer.
    if (data.type === "lock") navigator.locks?.request(data.name, () => forget(keys));
  };
});
