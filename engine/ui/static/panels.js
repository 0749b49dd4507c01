/** Views of what is told in words: checkpoints, errors, the log, settings. */

import { html, useEffect, useRef, useState } from "./lib.js";
import { errorLine } from "./model.js";
import { checkpointRows } from "./spans.js";
import { bytes, clock, cut, duration, whole } from "./units.js";

export function Checkpoints({ history }) {
  const rows = checkpointRows(history);
  if (!rows.length) {
    return html`
      <section class="empty"><h2>No checkpoint yet</h2>
        <p>A job with a place for checkpoints goes on behind a failure, and can be rescaled:</p>
        <pre>oka run pipeline.py --checkpoints FOLDER</pre>
        <p>The first is stored soon after all tasks run; then one each
          <code>checkpoint_interval_seconds</code>.</p></section>`;
  }
  const longest = Math.max(...rows.map((row) => row.total ?? 0), 1e-6);
  return html`
    <p class="legend above">${PHASES.map((name, i) => html`
      <span key=${name}><i class=${`dot phase-${i}`}></i>${name}</span>`)}</p>
    <div class="table-place tall" tabindex="0" role="region" aria-label="Checkpoints">
      <table>
        <thead><tr>
          ${["epoch", "began", "state", "took", "size"].map((name) => html`<th key=${name} scope="col"
            class=${name === "state" ? "words" : ""}>${name}</th>`)}
          <th scope="col" class="words phases">phases</th><th scope="col" class="words">slowest task</th>
        </tr></thead>
        <tbody>
          ${rows.slice(0, MOST_ROWS).map((row) => html`
            <tr key=${row.epoch}>
              <td>${row.epoch}</td>
              <td>${clock(row.began)}</td>
              <td class=${`words state-cell ${row.state === "failed" ? "what failure" : ""}`}>${row.state}${
                row.savepoint ? html` · savepoint <b>${row.savepoint}</b>` : ""}${
                row.of > 1 ? html` <span class="muted">the slowest of ${row.of}</span>` : ""}${
                row.failed !== undefined ? html`<div class="muted">${row.failed}</div>` : ""}</td>
              <td>${row.total === undefined ? "" : duration(row.total)}</td>
              <td>${row.bytes === undefined ? "" : bytes(row.bytes)}</td>
              <td class="words phases"><${Phases} row=${row} longest=${longest} /></td>
              <td class="words slowest muted">${row.slowest && `${cut(row.slowest.task, 34)}, ${
                duration(row.slowest.seconds)}`}</td>
            </tr>`)}
        </tbody>
      </table>
    </div>
    ${rows.length > MOST_ROWS && html`<p class="muted">The last ${MOST_ROWS} of ${rows.length}.</p>`}`;
}

function Phases({ row, longest }) {
  const text = row.phases.filter(([, seconds]) => seconds !== undefined)
    .map(([name, seconds]) => `${name} ${duration(seconds)}`).join(", ");
  return html`
    <span class="phase-bar" aria-hidden="true" title=${text}>
      ${row.phases.map(([name, seconds], i) => seconds > 0 && html`
        <i key=${name} class=${`phase-${i}`} style=${{ width: `${(100 * seconds) / longest}%` }}></i>`)}
    </span>
    <span class="muted">${text}</span>`;
}

export function Errors({ history, state }) {
  const end = history.failure;
  const errors = history.of("error").filter((each) => !end || errorLine(each) !== errorLine(end)).reverse();
  if (!end && !errors.length) {
    return html`<section class="empty"><h2>No error</h2>
      <p>An error of a function comes here with the record, the traceback and a hint. Records that
        <code>on_error</code> lets pass are counted at their operator in the graph.</p></section>`;
  }
  return html`
    ${end && html`<${OneError} error=${end} title="It ended the job" t=${history.end.t} />`}
    ${errors.map((each, i) => html`
      <${OneError} key=${errors.length - i} error=${each} t=${each.t}
        title=${state === "failed" || state === "killed" ? "Before the end" : "The job went on after it"} />`)}`;
}

function OneError({ error, title, t }) {
  const message = String(error.message ?? "");
  const facts = [["operator", error.operator], ["task", error.task], ["node", error.node],
    ["status", error.status]].filter(([, value]) => value !== undefined && value !== null && value !== "");
  return html`
    <article class="error">
      <h2>${error.type ?? "error"}: ${cut(message, LONG)}</h2>
      <p class="muted">${title}, at ${clock(t)}</p>
      ${facts.length > 0 && html`<dl class="facts">
        ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${String(value)}</dd></div>`)}
      </dl>`}
      ${error.hint && html`<p class="hint-box"><b>hint:</b> ${error.hint}</p>`}
      <${Text} title="Message" text=${message.length > LONG ? message : ""} />
      <${Text} title="Record" text=${error.record} />
      <${Text} title="Traceback" text=${error.traceback} />
      <${Text} title="Last words of the worker" text=${error.log} />
    </article>`;
}

function Text({ title, text }) {
  if (text === undefined || text === null || text === "") return null;
  return html`<h3>${title}</h3><pre tabindex="0" aria-label=${title}>${String(text)}</pre>`;
}

export function Log({ history }) {
  const [filter, setFilter] = useState("");
  const box = useRef(null);
  const isAtEnd = useRef(true);
  const lines = history.of("log");
  const needle = filter.toLowerCase();
  const shown = (needle ? lines.filter((each) => each.text.toLowerCase().includes(needle)) : lines).slice(-MOST_LINES);
  useEffect(() => {
    if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  if (!lines.length) {
    return html`<section class="empty"><h2>No line in the log</h2>
      <p>What functions write to stderr, and what <code>logging</code> says there, comes here:</p>
      <pre>print("parsed", record, file=sys.stderr)</pre>
      <p>On Ray the cluster has the log: <code>ray logs</code>.</p></section>`;
  }
  const onScroll = ({ target }) => {
    isAtEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 8;
  };
  return html`
    <div class="toolbar">
      <input type="search" placeholder="Filter lines" aria-label="Filter lines of the log" value=${filter}
        onInput=${(event) => setFilter(event.target.value)} />
      <span class="muted">${whole(shown.length)} of the last ${whole(lines.length)} lines</span>
    </div>
    <div class="log" ref=${box} onScroll=${onScroll} tabindex="0" role="region" aria-label="Log">
      ${shown.map((each, i) => html`<div key=${i}><span class="muted">${clock(each.t)}</span><code>${each.text}</code></div>`)}
    </div>`;
}

export function Settings({ history }) {
  const { settings = {}, versions = {}, machine = {}, process = {} } = history.job;
  const dropped = history.last("dropped").of;
  return html`
    <div class="columns">
      <${Pairs} title="Settings" values=${settings} />
      <div class="stack">
        <${Pairs} title="Versions" values=${versions} />
        <${Pairs} title="Machine" values=${machine} />
        <${Pairs} title="Process" values=${process} />
        ${history.end?.result && html`<${Pairs} title="Result" values=${history.end.result} />`}
        ${dropped && html`<${Pairs} title="Left out of the history, as it is bounded" values=${dropped} />`}
      </div>
    </div>`;
}

function Pairs({ title, values }) {
  return html`
    <div><h2 class="part">${title}</h2>
      <dl class="pairs single">
        ${Object.entries(values).map(([name, value]) => html`
          <div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd>${told(value)}</dd></div>`)}
      </dl></div>`;
}

function told(value) {
  if (value === null || value === "") return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const PHASES = ["tasks write", "store", "commit of sinks"];
const LONG = 240;
const MOST_ROWS = 500;
const MOST_LINES = 1000;
