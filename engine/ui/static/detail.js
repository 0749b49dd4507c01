/** What lies under the graph: one operator with its tasks, or else the whole job. */

import { Chart } from "./chart.js";
import { heat } from "./graph.js";
import { html, useMemo, useState } from "./lib.js";
import { endColumns, latenciesOf, SHARES, sum, taskRows } from "./model.js";
import { rateOf, series, shareOf } from "./series.js";
import { bytes, duration, metric, percent, short, whole } from "./units.js";

/** The operator with its rates, shares and tasks. */
export function OperatorDetail({ history, all, vertex, operator, since, theme, onClose }) {
  const { column } = operator;
  const rates = useMemo(
    () => series(history, "sample", [rateOf("in", [column]), rateOf("out", [column])], since),
    [history, history.seconds, column, since]);
  const shares = useMemo(
    () => series(history, "sample", SHARES.map((name) => shareOf(name, vertex.at)), since),
    [history, history.seconds, vertex.at, since]);
  const { total } = operator;
  const facts = [
    ["records in", whole(total.in)], ["records out", whole(total.out)],
    ["late", total.late, "records behind the watermark, whose windows were closed"],
    ["errors", total.errors, "records that its function failed on, which on_error let pass"],
    ["left out", total.failures, "things that it had to leave out, such as models that do not load"],
    ["native", total.native, "records whose function ran in Rust or over columns"],
    ["fallbacks", total.fallbacks, "batches that went through the Python function itself"],
    ["keys", operator.keys, "keys that it keeps something of, at the last checkpoint"],
    ["oldest key", operator.oldest && duration(operator.oldest), "for how long checkpoints have had it"],
    ["state", vertex.state && bytes(vertex.state), "of the chain, at the last checkpoint"],
    ["behind", vertex.isSource && vertex.behind, "records that wait in front of the source"],
    ["watermark", vertex.lag && `${duration(vertex.lag)} behind`, "of the task that is farthest behind the clock"],
    ["input backlog", vertex.backlog && bytes(vertex.backlog), "what has arrived and waits"],
  ].filter(([, value]) => value);
  return html`
    <section class="detail" aria-labelledby="detail-title">
      <header>
        <h2 id="detail-title">${operator.name}</h2>
        <span class="muted">${operator.kind}${vertex.operators.length > 1
          ? `, in the chain ${vertex.name}` : ""}</span>
        <button class="quiet close" onClick=${onClose} aria-label="Close the operator">✕</button>
      </header>
      <dl class="facts">
        ${facts.map(([name, value, help]) => html`
          <div key=${name} title=${help}><dt>${name}</dt>
            <dd>${typeof value === "number" ? whole(value) : value}</dd></div>`)}
        ${operator.way && html`<div><dt>runs</dt><dd class="way">${operator.way}</dd></div>`}
      </dl>
      <div class="charts">
        <${Chart} title="Records per second" data=${rates} format=${short} theme=${theme}
          lines=${[{ name: "in", colour: "--line-1" }, { name: "out", colour: "--line-2" }]} />
        <${Chart} title="Share of time" data=${shares} format=${percent} most=${1} theme=${theme}
          lines=${SHARES.map((name) => ({ name, colour: `--${name}-line` }))} />
      </div>
      <${Tasks} rows=${taskRows(history, vertex)} />
      <div class="columns">
        <div><h2 class="part">Latency from source to here</h2>
          <${Latencies} history=${history} all=${all} vertex=${vertex} operator=${operator} /></div>
        <div><h2 class="part">State</h2><p class="muted">${stateOf(history, operator)}</p></div>
      </div>
    </section>`;
}

/** How many markers took how long, of an operator at which records end. */
function Latencies({ history, all, vertex, operator }) {
  if (!vertex.isEnd || vertex.operators.at(-1) !== operator) {
    const sink = all.find((each) => each.isEnd)?.operators.at(-1);
    return html`<p class="muted">It is measured where records end${sink ? html`, such as in <b>${sink.name}</b>` : ""}.</p>`;
  }
  const found = latenciesOf(history, vertex);
  if (!found) return html`<p class="muted">No marker has come yet: one record in <code>marker_interval</code> has one.</p>`;
  const most = Math.max(...found.counts.map(([, count]) => count));
  const number = sum(found.counts.map(([, count]) => count));
  return html`
    <dl class="bars">
      ${found.counts.map(([bound, count]) => html`
        <div key=${bound}><dt>${bound === null ? "more" : `≤ ${duration(bound / 1e6)}`}</dt>
          <dd><i style=${{ width: `${(55 * count) / most}%` }}></i>${percent(count / number)}</dd></div>`)}
    </dl>
    <p class="muted">${whole(number)} markers since its tasks began</p>`;
}

function stateOf(history, { keys, oldest }) {
  if (!history.checkpoints.size) {
    return "Unknown: keys and bytes are counted by checkpoints, and there is none (--checkpoints FOLDER).";
  }
  if (!keys) return "The last checkpoint has no keys of this operator.";
  return `${whole(keys)} keys at the last checkpoint; the oldest is kept for ${duration(oldest)}.`;
}

/** The whole job: throughput, latency, and the metrics that are not zero. */
export function JobDetail({ history, all, facts, since, theme }) {
  const { sources, sinks } = endColumns(all, history.plan.edges);
  const rates = useMemo(
    () => series(history, "sample", [rateOf("out", sources), rateOf("out", sinks)], since),
    [history, history.seconds, since]);
  const memory = useMemo(() => series(history, "sample", [
    (each) => each.metrics?.memory_bytes ?? 0, (each) => each.metrics?.input_backlog_bytes ?? 0], since),
  [history, history.seconds, since]);
  const { latency, metrics } = facts;
  return html`
    <section class="detail" aria-label="The whole job">
      <p class="muted hint">Choose an operator in the graph to see its rates and its tasks.</p>
      <div class="charts">
        <${Chart} title="Records per second" data=${rates} format=${short} theme=${theme} lines=${[
          { name: "from sources", colour: "--line-1" }, { name: "to sinks", colour: "--line-2" }]} />
        <${Chart} title="Memory and input backlog" data=${memory} format=${bytes} theme=${theme} lines=${[
          { name: "largest worker", colour: "--line-3" }, { name: "input backlog", colour: "--line-1" }]} />
      </div>
      <div class="columns">
        <div>
          <h2 class="part">Latency from source to sink</h2>
          ${latency ? html`<${Percentiles} latency=${latency} />`
            : html`<p class="muted">No marker has reached a sink yet.</p>`}
        </div>
        <div>
          <h2 class="part">Metrics</h2>
          <dl class="pairs">
            ${Object.entries(metrics).map(([name, value]) => {
              const [what, text] = metric(name, value);
              return html`<div key=${name}><dt>${what}</dt><dd>${text}</dd></div>`;
            })}
          </dl>
        </div>
      </div>
    </section>`;
}

function Percentiles({ latency }) {
  const rows = [["p50", latency.p50], ["p95", latency.p95], ["p99", latency.p99],
    ["p99.9", latency.p999], ["max", latency.max]];
  const scale = (seconds) => Math.log10(1 + Math.max(0, seconds) * 1e6);
  return html`
    <dl class="bars">
      ${rows.map(([name, seconds]) => html`
        <div key=${name}><dt>${name}</dt>
          <dd><i style=${{ width: `${(55 * scale(seconds)) / (scale(latency.max) || 1)}%` }}></i>
            ${duration(seconds)}</dd></div>`)}
    </dl>
    <p class="muted">${whole(latency.count)} markers since the job began; bars are logarithmic</p>`;
}

/** A table of the tasks, by any column. */
function Tasks({ rows }) {
  const [[by, isDown], setOrder] = useState(["index", false]);
  const shown = COLUMNS.filter(([name, , , always]) => always || rows.some((row) => row[name]));
  const sorted = [...rows].sort((a, b) => (isDown ? -1 : 1) * (a[by] - b[by]) || a.index - b.index);
  const most = Math.max(...rows.map((each) => each.inRate || each.outRate), 0);
  return html`
    <div class="strip" aria-hidden="true">
      ${rows.map((row) => html`
        <i key=${row.index} style=${heat(row)}
          title=${`task ${row.index}: ${percent(row.busy)} busy, ${percent(row.blocked)} blocked`}></i>`)}
    </div>
    <div class="table-place" tabindex="0" role="region" aria-label="Tasks of the operator">
      <table>
        <thead><tr>
          ${shown.map(([name, title]) => html`
            <th key=${name} scope="col"
              aria-sort=${by !== name ? "none" : isDown ? "descending" : "ascending"}>
              <button class="sort" onClick=${() => setOrder([name, by === name ? !isDown : true])}
                >${title}<i aria-hidden="true">${by !== name ? "" : isDown ? "↓" : "↑"}</i></button>
            </th>`)}
        </tr></thead>
        <tbody>
          ${sorted.map((row) => html`
            <tr key=${row.index} title=${row.name}>
              ${shown.map(([name, , format]) => html`
                <td key=${name} class=${SHARES.includes(name) && `share-cell ${name}`}
                  style=${cellStyle(name, row, most)}>${format(row[name])}</td>`)}
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

function cellStyle(name, row) {
  return SHARES.includes(name) ? { "--share": row[name] } : undefined;
}

const sized = (value) => (value ? bytes(value) : "");
const some = (value) => (value ? whole(value) : "");
const lasting = (ms) => (ms ? duration(ms / 1000) : "");
const COLUMNS = [
  ["index", "task", (value) => value, true],
  ["inRate", "in/s", short, true],
  ["outRate", "out/s", short, true],
  ["in", "in", whole, true],
  ["out", "out", whole, true],
  ["busy", "busy", percent, true],
  ["waiting", "waiting", percent],
  ["blocked", "blocked", percent, true],
  ["idle", "idle", percent],
  ["input_backlog_bytes", "input backlog", sized],
  ["backlog_bytes", "output backlog", sized],
  ["memory_bytes", "memory", sized],
  ["watermark_lag_ms", "watermark lag", lasting],
  ["lag_records", "behind", some],
  ["p50", "p50", (value) => (value ? duration(value / 1e6) : "")],
  ["p99", "p99", (value) => (value ? duration(value / 1e6) : "")],
  ["checkpointed_bytes", "state", sized],
  ["state_records", "kept", some],
  ["written", "last written in", lasting],
  ["checkpoint_alignment_ms", "longest alignment", lasting],
  ["checkpoint_pause_ms", "longest pause", lasting],
  ["model_version", "model", some],
];
