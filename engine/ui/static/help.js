/** The keys, and what the colours mean. */

import { html, useEffect, useRef } from "./lib.js";

/** A window over the page, until it is closed. */
export function Window({ title, onClose, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (!dialog.current.open) dialog.current.showModal();
    dialog.current.querySelector("[data-first]")?.focus();
  }, []);
  const onClick = (event) => event.target === dialog.current && onClose();
  return html`
    <dialog ref=${dialog} aria-labelledby="window-title" onClose=${onClose} onClick=${onClick}>
      <div class="window"><h2 id="window-title">${title}</h2>${children}</div>
    </dialog>`;
}

export function Help({ onClose }) {
  return html`
    <${Window} title="Keys and colours" onClose=${onClose}>
      <dl class="pairs keys">
        ${KEYS.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}
      </dl>
      <dl class="pairs">
        ${COLOURS.map(([name, what]) => html`
          <div key=${name}><dt><i class=${`dot ${name}`}></i>${name}</dt><dd>${what}</dd></div>`)}
      </dl>
      <div class="buttons"><button onClick=${onClose} data-first>Close</button></div>
    <//>`;
}

/** Whether a key is meant for where a person writes, or for a window, or for the browser. */
export function isTyping(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return true;
  return /^(INPUT|SELECT|TEXTAREA)$/.test(event.target?.tagName ?? "");
}

const KEYS = [
  ["1 – 7", "the views: graph, timeline, and so on"],
  ["← → ↑ ↓", "in the graph from operator to operator; in the timeline earlier, later, tasks"],
  ["Enter", "opens the operator"],
  ["Esc", "closes it"],
  ["+ − 0", "zoom of the timeline: closer, further, all"],
  ["k j", "the next and the previous job"],
  ["t", "light or dark"],
  ["?", "this help"],
];
const COLOURS = [
  ["busy", "on a core or ready for one; yellow to orange in the graph"],
  ["waiting", "in its own functions: a source that sleeps, a service that is asked"],
  ["blocked", "until the operator behind it takes more: backpressure"],
  ["idle", "without input"],
];
