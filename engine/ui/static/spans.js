/** A history along time: the steps of tasks, checkpoints, and what happened. Pure. */

import { errorLine, isRestart } from "./model.js";

/** Lanes of tasks with their spans, as engine/history/trace.py has them, and how busy they were. */
export function lanes(history) {
  const found = new Map(); // by the name of the task
  for (const plan of history.of("plan")) {
    plan.vertices.forEach((vertex, at) => {
      for (let index = 0; index < vertex.parallelism; index++) {
        const name = `${vertex.name}[${index}]`;
        if (!found.has(name)) found.set(name, { name, vertex: vertex.name, at, index });
      }
    });
  }
  const all = [...found.values()].sort((a, b) => a.at - b.at || a.index - b.index);
  all.forEach((lane, number) => { lane.number = number; });
  return { lanes: all, spans: [...steps(history, found)], heat: heats(history, found) };
}

function* steps(history, found) {
  const records = ["plan", "done", "step"].flatMap((kind, rank) =>
    history.of(kind).map((record) => [record, rank]));
  records.sort(([a, one], [b, other]) => a.t - b.t || one - other);
  let [places, open, waiting] = [[], null, new Set()];
  const ended = function* ended(tasks, to) {
    for (const task of tasks) {
      if (!waiting.delete(task) || places[task] === undefined) continue;
      yield { lane: places[task], from: open.t, to, step: open.step, attempt: open.attempt };
    }
  };
  for (const [record] of records) {
    if (record.kind === "plan") {
      if (open) yield* ended([...waiting], record.t);
      [places, open] = [placesOf(record, found), null];
    } else if (record.kind === "step") {
      if (open) yield* ended([...waiting], record.t);
      [open, waiting] = [record, new Set(places.keys())];
    } else if (open && record.step === open.step && record.attempt === open.attempt) {
      yield* ended(record.tasks, record.t);
    }
  }
  if (open) yield* ended([...waiting], history.seconds);
}

/** Of each time that tasks told of: `{from, to, lanes, busy, blocked}`, shares from 0 to 1. */
function heats(history, found) {
  const plans = history.of("plan").map((plan) => [plan.t, placesOf(plan, found)]);
  return history.of("tasks").map((record) => {
    const [begins, places] = plans.findLast(([t]) => t <= record.t) ?? [0, []];
    const share = (name) => (record[name] ?? []).map((each) => each / 1000);
    return { from: Math.max(begins, record.t - (record.seconds ?? 0)), to: record.t, lanes: places,
      busy: share("busy"), blocked: share("blocked") };
  });
}

function placesOf(plan, found) {
  return taskNames(plan).map((name) => found.get(name).number);
}

/** What happened: `{t, what, text}`, where `what` is one of the names in HAPPENINGS. */
export function happenings(history) {
  const found = [];
  for (const event of history.of("event")) {
    found.push({ t: event.t, what: kindOf(event), text: eventLine(event) });
  }
  for (const error of history.of("error")) {
    found.push({ t: error.t, what: "failure", text: errorLine(error) });
  }
  for (const checkpoint of history.checkpoints.values()) {
    if (checkpoint.failed === undefined) continue;
    const text = `checkpoint ${checkpoint.epoch} failed: ${checkpoint.failed}`;
    found.push({ t: checkpoint.t, what: "failure", text });
  }
  found.push(...swaps(history));
  if (history.end) {
    const { t, state, error } = history.end;
    const text = error ? `the job failed: ${errorLine(error)}` : `the job: ${state}`;
    found.push({ t, what: error ? "failure" : "end", text });
  }
  return found.sort((a, b) => a.t - b.t);
}

/** When tasks went on to another version of a model. */
function* swaps(history) {
  let before = 0;
  for (const { t, metrics } of history.of("sample")) {
    const version = metrics?.model_version ?? before;
    if (version > before) {
      yield { t, what: "swap", text: `tasks use version ${version} of the model` };
    }
    before = version;
  }
}

function kindOf(record) {
  const { event } = record;
  if (event === "warning") return isRestart(record) ? "restart" : "warning";
  if (event === "rescaled") return "rescale";
  return "request";
}

/** An event in a line, as engine/history/view.py has it. */
export function eventLine(event) {
  if (event.event === "warning") return String(event.text ?? "");
  const more = Object.entries(event).filter(([name]) => !["kind", "t", "event"].includes(name));
  return [event.event, ...more.map(([name, each]) => `${name} ${each}`)].join(", ");
}

/** Checkpoints as spans: `{from, to, name, isFailed, isSavepoint}`. */
export function checkpointSpans(history) {
  return [...history.checkpoints.values()].map((each) => {
    const from = each.began ?? each.t;
    return {
      from, to: each.committed ?? each.stored ?? (each.failed === undefined ? history.seconds : from),
      name: `checkpoint ${each.epoch}${each.savepoint ? `, savepoint ${each.savepoint}` : ""}`,
      isFailed: each.failed !== undefined, isSavepoint: each.savepoint !== undefined,
    };
  });
}

/** A row for each checkpoint, the newest first, with the seconds of its phases. */
export function checkpointRows(history) {
  const rows = [...history.checkpoints.values()].map((each) => {
    const began = each.began ?? each.t;
    const last = each.committed ?? each.stored ?? each.aligned;
    const state = each.failed !== undefined ? "failed" : each.stored === undefined ? "under way"
      : each.committed === undefined ? "stored" : "committed";
    return {
      epoch: each.epoch, began, state, failed: each.failed, savepoint: each.savepoint,
      of: each.of ?? 1, bytes: each.bytes, total: last === undefined ? undefined : last - began,
      phases: [
        ["tasks write", each.aligned === undefined ? undefined : each.aligned - began],
        ["store", each.stored === undefined ? undefined : each.stored - (each.aligned ?? began)],
        ["commit", each.committed === undefined ? undefined : each.committed - each.stored],
      ],
      slowest: slowestTask(each.written_ms, taskNames(planAt(history, began))),
    };
  });
  return rows.reverse();
}

function slowestTask(writtenMs, names) {
  if (!writtenMs?.length) return null;
  const ms = Math.max(...writtenMs);
  const at = writtenMs.indexOf(ms);
  return { task: names[at] ?? `task ${at}`, seconds: ms / 1000 };
}

function planAt(history, t) {
  return history.of("plan").findLast((plan) => plan.t <= t) ?? history.plan;
}

/** The names of a plan's tasks, in the order of their numbers. */
export function taskNames(plan) {
  return plan.vertices.flatMap((vertex) =>
    Array.from({ length: vertex.parallelism }, (_, index) => `${vertex.name}[${index}]`));
}

/** The part of time that is seen after a zoom by `factor` about `t`; it stays within the job. */
export function zoomed([from, to], t, factor, end) {
  const width = Math.min(Math.max((to - from) * factor, NARROWEST), Math.max(end, NARROWEST));
  const share = to > from ? (t - from) / (to - from) : 0.5;
  return moved([t - share * width, t - share * width + width], 0, end);
}

/** The part of time that is seen after a move by so many seconds. */
export function moved([from, to], seconds, end) {
  const width = to - from;
  const start = Math.max(0, Math.min(from + seconds, Math.max(end, NARROWEST) - width));
  return [start, start + width];
}

/** Times for marks of an axis, about so many. */
export function ticks([from, to], number) {
  const least = (to - from) / number;
  const step = STEPS.find((each) => each >= least) ?? Math.ceil(least / 86400) * 86400;
  const found = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) found.push(t);
  return found;
}

const NARROWEST = 0.02;
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120,
  300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400];
/** Kinds of what happens, each with its mark and its colour. */
export const HAPPENINGS = {
  failure: ["✕", "--bad"],
  restart: ["↻", "--warn"],
  rescale: ["⇄", "--line-3"],
  swap: ["⇪", "--line-2"],
  request: ["●", "--accent"],
  warning: ["▲", "--warn"],
  end: ["■", "--muted"],
};
