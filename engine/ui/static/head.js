/** The head of a job: what it is called, how it is, its figures, and what can be done about it. */

import { Actions } from "./actions.js";
import { html } from "./lib.js";
import { errorLine, taskCount } from "./model.js";
import { bytes, clock, count, duration, moment, percent, short, whole } from "./units.js";

export function Head({ job, history, state, actions, facts, go, theme, setTheme, onHelp, again }) {
  const other = theme === "dark" ? "light" : "dark";
  return html`
    <header class="head">
      <div class="title">
        <h1 title=${job}>${facts.name}</h1>
        <span class=${`state ${state}`} role="status">${state}</span>
        <span class="muted">began ${moment(facts.since, Date.now() / 1000)}, ${
          state === "running" ? "for" : "ran for"} ${clock(facts.seconds)}</span>
      </div>
      <div class="buttons">
        <${Actions} job=${job} actions=${actions} again=${again}
          parallelism=${parallelism(history)} />
        <button class="quiet" onClick=${() => setTheme(other)} aria-label=${`Switch to the ${other} theme`}
          title="Theme (t)">${theme === "dark" ? "☀" : "☾"}</button>
        <button class="quiet" onClick=${onHelp} aria-label="Help and keys" title="Help (?)">?</button>
      </div>
    </header>
    <${Figures} history=${history} facts=${facts} state=${state} />
    <${Trouble} history=${history} facts=${facts} state=${state} go=${go} job=${job} />`;
}

function parallelism(history) {
  const rescaled = history.of("event").findLast((each) => each.event === "rescaled");
  return rescaled?.parallelism ?? history.job.settings?.parallelism;
}

function Figures({ history, facts, state }) {
  const { latency, metrics } = facts;
  const stored = [...history.checkpoints.values()].filter((each) => each.stored !== undefined);
  const number = stored.reduce((all, each) => all + (each.of ?? 1), 0);
  const last = stored.at(-1);
  const figures = [
    ["records/s", short(facts.rate), state === "running" ? "to the sinks, now" : "to the sinks, mean"],
    ["records", count(facts.records), "to the sinks", whole(facts.records)],
    ["latency p99", latency ? duration(latency.p99) : "–", latency ? `p50 ${duration(latency.p50)}` : "no marker yet"],
    ["tasks", String(taskCount(history.plan)), `in ${history.plan.vertices.length} ${history.plan.vertices.length === 1 ? "chain" : "chains"}`],
    ["memory", metrics.memory_bytes ? bytes(metrics.memory_bytes) : "–", "largest worker"],
    ["checkpoints", number ? whole(number) : "–",
      !last ? "none stored" : state === "running"
        ? `last ${clock(Math.max(0, history.seconds - last.stored))} ago` : `last at ${clock(last.stored)}`],
    ["restarts", whole(Math.max(facts.restarts, metrics.restarts ?? 0)), facts.errors ? `${whole(facts.errors)} record errors` : ""],
  ];
  return html`
    <dl class="figures">
      ${figures.map(([name, value, note, all]) => html`
        <div key=${name} title=${all}><dt>${name}</dt><dd>${value}</dd><dd class="muted">${note}</dd></div>`)}
    </dl>`;
}

function Trouble({ history, facts, state, go, job }) {
  const error = history.failure ?? (state === "killed" ? history.of("error").at(-1) : null);
  if (state === "failed" || state === "killed") {
    const line = state === "killed" ? "The driver was killed, or ended without a word."
      : error ? errorLine(error) : "The job failed.";
    return html`
      <p class="banner is-failure">
        <span class="line">${line}</span>
        ${error && html`<button onClick=${() => go({ job, view: "errors" })}>Show the error</button>`}
      </p>`;
  }
  if (state === "running" && facts.bottleneck) {
    const { bottleneck, blocked } = facts;
    return html`
      <p class="banner is-backpressure"><span class="line">Backpressure: ${percent(blocked)} blocked by
        ${" "}<b>${bottleneck.name}</b>, which is ${percent(bottleneck.busy)} busy${
          bottleneck.waiting > 0.05 ? ` and ${percent(bottleneck.waiting)} waiting` : ""}</span></p>`;
  }
  return null;
}
