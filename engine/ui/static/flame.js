/** The flame graph of a task: how often its thread was seen in which function. */

import { act } from "./api.js";
import { Answer } from "./actions.js";
import { classes, html, useMemo, useState } from "./lib.js";
import { taskNames } from "./spans.js";
import { flameTree } from "./stacks.js";
import { clock, duration, percent, whole } from "./units.js";

export function Flame({ job, history, actions, again }) {
  const tasks = useMemo(() => taskNames(history.plan), [history.plan]);
  const [task, setTask] = useState(null);
  const [seconds, setSeconds] = useState("5");
  const [answer, setAnswer] = useState(null);
  const [number, setNumber] = useState(null);
  const all = history.of("flame");
  const shown = all[number ?? all.length - 1];
  const run = async (event) => {
    event.preventDefault();
    setNumber(null);
    setAnswer({ said: "asked …" });
    setAnswer(await act(job, "flame", { task: task ?? tasks[0], seconds: Number(seconds) }));
    again();
  };
  return html`
    ${actions.includes("flame") && html`
      <form class="toolbar" onSubmit=${run}>
        <label>Task <select value=${task ?? tasks[0]} onChange=${(event) => setTask(event.target.value)}>
          ${tasks.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
        <label>Seconds <input type="number" min="1" max="60" value=${seconds}
          onInput=${(event) => setSeconds(event.target.value)} /></label>
        <button type="submit" class="primary">Take a flame graph</button>
      </form>`}
    <${Answer} answer=${answer} onClose=${() => setAnswer(null)} />
    ${all.length > 1 && html`
      <p class="toolbar"><label>Shown <select value=${String(number ?? all.length - 1)}
        onChange=${(event) => setNumber(Number(event.target.value))}>
        ${all.map((each, i) => html`<option key=${i} value=${String(i)}>${each.task}, at ${clock(each.t)}</option>`)}
      </select></label></p>`}
    ${shown ? html`<${Picture} key=${`${shown.t} ${shown.task}`} flame=${shown} />` : html`
      <section class="empty"><h2>No flame graph yet</h2>
        <p>${actions.includes("flame")
          ? "It shows in which functions a task spends its time: choose one that is busy, and take it."
          : "One can be taken while the job runs under oka run --ui, and stays in its history."}</p></section>`}`;
}

function Picture({ flame }) {
  const tree = useMemo(() => flameTree(flame.stacks ?? []), [flame]);
  const [path, setPath] = useState("");
  const [told, setTold] = useState("");
  const root = tree.all.get(path) ?? tree.root;
  const above = path.split(";").slice(0, -1).map((_, at, all) => tree.all.get(all.slice(0, at + 1).join(";")));
  const rows = above.map((node) => [{ node, from: 0, width: 1, isAbove: true }]);
  const walk = (node, depth, from) => {
    const width = node.count / root.count;
    if (width < NARROWEST) return;
    (rows[depth] ??= []).push({ node, from, width });
    let at = from;
    for (const child of node.children) {
      walk(child, depth + 1, at);
      at += child.count / root.count;
    }
  };
  if (root.count) walk(root, rows.length, 0);
  return html`
    <p class="muted">${flame.task}: ${whole(flame.samples ?? tree.root.count)} samples in ${duration(flame.seconds)}, at ${
      clock(flame.t)}. The wider, the more of its time. Oka's own functions are pale. A click goes closer, one on what is above goes back.</p>
    <p class="told-line">${told || " "}</p>
    <div class="flame" role="group" aria-label="Flame graph">
      ${rows.map((row, depth) => html`
        <div class="flame-row" key=${depth}>
          ${row.map(({ node, from, width, isAbove }) => {
            const text = `${node.name}, ${percent(node.count / tree.root.count)}, ${whole(node.count)} samples`;
            return html`
              <button key=${node.path} class=${classes(`frame hue-${hue(node.name)}`, isAbove && "is-above")} aria-label=${text} title=${text}
                style=${{ left: `${from * 100}%`, width: `${width * 100}%` }} tabindex=${width > 0.03 ? 0 : -1}
                onClick=${() => setPath(node.path)} onFocus=${() => setTold(text)}
                onMouseEnter=${() => setTold(text)}>${width > 0.025 ? node.name : ""}</button>`;
          })}
        </div>`)}
    </div>`;
}

/** Frames of one file have one of a few colours; those of Oka are pale. */
function hue(name) {
  if (name === "all" || / \((engine|operators)\//.test(name)) return "oka";
  let sum = 0;
  const file = name.replace(/^.*?\(|[:)].*$/g, "");
  for (const each of file) sum = (sum * 31 + each.charCodeAt(0)) % 9973;
  return sum % 6;
}

const NARROWEST = 0.002;
