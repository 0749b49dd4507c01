/** Records of a history as what the page shows of it. Pure: no page, no clock, no network. */

/** What is known of one job, as engine/history/reading.py has it. */
export class JobHistory {
  constructor() {
    this.job = {};
    this.end = null;
    this.checkpoints = new Map(); // by epoch
    this.seconds = 0;
    this.totals = new Map(); // of operators, by number
    this.taskTotals = { in: [], out: [] }; // since the last plan
    this.kinds = new Map();
  }

  /** Take in records, in the order of time. */
  add(records) {
    for (const record of records) {
      this.seconds = Math.max(this.seconds, record.t);
      if (record.kind === "job") this.job = record;
      else if (record.kind === "end") this.end = record;
      else if (record.kind === "checkpoint") this.#addCheckpoint(record);
      else {
        if (!this.kinds.has(record.kind)) this.kinds.set(record.kind, []);
        this.kinds.get(record.kind).push(record);
        if (record.kind === "plan") this.taskTotals = { in: [], out: [] };
        if (record.kind === "sample") this.#count(record);
        if (record.kind === "tasks") this.#countTasks(record);
      }
    }
  }

  /** The records of a kind, such as `sample`, `event`, `error` and `log`. */
  of(kind) {
    return this.kinds.get(kind) ?? [];
  }

  /** The last record of a kind; an empty one if there is none. */
  last(kind) {
    return this.of(kind).at(-1) ?? {};
  }

  get plan() {
    return this.of("plan").at(-1) ?? NO_PLAN;
  }

  /** The error that ended the job, or else the last one that it went on after. */
  get failure() {
    return this.end === null ? null : this.end.error ?? null;
  }

  #addCheckpoint(record) {
    const before = this.checkpoints.get(record.epoch);
    this.checkpoints.set(record.epoch, before ? { ...before, ...record, t: before.t } : record);
  }

  #count(sample) {
    const numbers = order(this.plan);
    for (const name of COUNTS) {
      const column = sample[name] ?? [];
      if (column.length !== numbers.length) continue;
      numbers.forEach((number, at) => {
        const total = this.totals.get(number) ?? {};
        total[name] = (total[name] ?? 0) + column[at];
        this.totals.set(number, total);
      });
    }
  }

  #countTasks(record) {
    const size = taskCount(this.plan);
    for (const name of ["in", "out"]) {
      const column = record[name] ?? [];
      if (column.length !== size) continue;
      column.forEach((value, at) => {
        this.taskTotals[name][at] = (this.taskTotals[name][at] ?? 0) + value;
      });
    }
  }
}

/** The numbers of the operators, as columns of samples have them. */
export function order(plan) {
  return plan.vertices.flatMap((vertex) => vertex.operators);
}

export function taskCount(plan) {
  return plan.vertices.reduce((sum, vertex) => sum + vertex.parallelism, 0);
}

/** The samples of the last seconds as one: a batch may take longer than a second. */
export function recent(samples, seconds = 4, most = 10) {
  let found = null;
  for (const sample of samples.slice(-most).reverse()) {
    if (found && samples.at(-1).t - sample.t > seconds) break;
    found = found ? mergedSamples(sample, found) ?? found : sample;
  }
  return found ?? {};
}

/** One sample for the time of both; null where they are of different plans. */
export function mergedSamples(first, second) {
  const [one, other] = [first.seconds ?? 0, second.seconds ?? 0];
  const record = { ...second, seconds: one + other };
  for (const name of new Set([...Object.keys(first), ...Object.keys(second)])) {
    if (name === "latency" || !(Array.isArray(first[name]) || Array.isArray(second[name]))) continue;
    const size = (first[name] ?? second[name]).length;
    const before = first[name] ?? Array(size).fill(0);
    const after = second[name] ?? Array(size).fill(0);
    if (before.length !== after.length) return null;
    record[name] = before.map((value, at) => {
      if (SHARES.includes(name)) return (value * one + after[at] * other) / (one + other || 1);
      return MOMENTARY.includes(name) || KEPT.includes(name) ? Math.max(value, after[at]) : value + after[at];
    });
  }
  return record;
}

/** The vertices with their shares (0 to 1), rates, what is behind them, and the bottleneck. */
export function vertices(history) {
  const { plan } = history;
  const now = recent(history.of("sample"));
  const tasks = recent(history.of("tasks"), 0);
  const goesOn = new Set(plan.edges.map((edge) => edge.source));
  const names = new Map(plan.operators.map((each) => [each.id, each]));
  const readFrom = new Set(plan.edges.map((edge) => edge.target));
  const seconds = now.seconds || 1;
  let [first, number] = [0, 0];
  const found = plan.vertices.map((vertex, at) => {
    const members = [first, (first += vertex.parallelism)];
    const operators = vertex.operators.map((id) => {
      const column = number++;
      return {
        ...names.get(id), vertex: at, column,
        total: { in: 0, out: 0, ...history.totals.get(id) },
        inRate: cell(now, "in", column) / seconds,
        outRate: cell(now, "out", column) / seconds,
        keys: cell(now, "checkpointed_keys", column),
        oldest: cell(now, "oldest_key_ms", column) / 1000,
      };
    });
    const shares = Object.fromEntries(SHARES.map((name) => [name, cell(now, name, at) / 1000]));
    return {
      ...shares, at, name: vertex.name, parallelism: vertex.parallelism, operators, members,
      resources: vertex.resources ?? {}, isSource: !readFrom.has(at), isEnd: !goesOn.has(at),
      isBottleneck: false,
      backlog: sum(slice(tasks, "input_backlog_bytes", members)),
      lag: Math.max(0, ...slice(tasks, "watermark_lag_ms", members)) / 1000,
      behind: sum(slice(tasks, "lag_records", members)),
      state: sum(slice(tasks, "checkpointed_bytes", members)),
    };
  });
  const slowest = bottleneck(found);
  if (slowest !== null) found[slowest].isBottleneck = true;
  return found;
}

/** The vertex that has the least spare time and is not held up, if others wait for it. */
export function bottleneck(all) {
  if (!all.some((each) => each.blocked > HELD_UP)) return null;
  const free = all.filter((each) => each.blocked <= HELD_UP && !each.isSource);
  if (!free.length) return null;
  return free.reduce((a, b) => (b.busy + b.waiting > a.busy + a.waiting ? b : a)).at;
}

/** The edges with the records per second over each. */
export function edges(history, all) {
  const into = new Map();
  history.plan.edges.forEach((each) => into.set(each.target, (into.get(each.target) ?? 0) + 1));
  return history.plan.edges.map((edge) => {
    const [source, target] = [all[edge.source], all[edge.target]];
    const isOnly = into.get(edge.target) === 1;
    const side = edge.side_output;
    const rate = isOnly ? target.operators[0].inRate : side ? null : source.operators.at(-1).outRate;
    return { ...edge, rate };
  });
}

/** How long records took to the sinks of a vertex: `{counts, tasks}`; null where no marker has come. */
export function latenciesOf(history, vertex) {
  const { t = -1, of = [] } = history.last("latencies");
  return t < history.plan.t ? null : of.find((each) => each.vertex === vertex.at) ?? null;
}

/** A row for each task of a vertex, as they are now. */
export function taskRows(history, vertex) {
  const now = recent(history.of("tasks"), 0);
  const seconds = now.seconds || 1;
  const latencies = latenciesOf(history, vertex)?.tasks ?? [];
  const written = [...history.checkpoints.values()].findLast((each) => each.written_ms)?.written_ms ?? [];
  const isOfPlan = written.length === taskCount(history.plan);
  return Array.from({ length: vertex.parallelism }, (_, index) => {
    const at = vertex.members[0] + index;
    const row = { index, name: `${vertex.name}[${index}]` };
    for (const name of SHARES) row[name] = cell(now, name, at) / 1000;
    for (const name of MOMENTARY) row[name] = cell(now, name, at);
    row.in = history.taskTotals.in[at] ?? 0;
    row.out = history.taskTotals.out[at] ?? 0;
    row.inRate = cell(now, "in", at) / seconds;
    row.outRate = cell(now, "out", at) / seconds;
    [, row.p50, row.p99] = latencies[index] ?? [0, 0, 0];
    row.written = isOfPlan ? written[at] : 0;
    return row;
  });
}

/** The columns of the operators that end in a sink, or that begin the job. */
export function endColumns(all, edgesOfPlan) {
  const goOn = new Set(edgesOfPlan.map((edge) => edge.source));
  const sinks = all.filter((each) => !goOn.has(each.at));
  return {
    sinks: sinks.map((each) => each.operators.at(-1).column),
    sources: all.filter((each) => each.isSource).map((each) => each.operators[0].column),
  };
}

/** What the head of the page says of a job. */
export function summary(history, all, state) {
  const { sinks } = endColumns(all, history.plan.edges);
  const operators = all.flatMap((each) => each.operators);
  const result = history.end?.result;
  const now = recent(history.of("sample"));
  const latency = history.of("sample").findLast((each) => each.latency)?.latency;
  const records = result?.records ?? sum(sinks.map((at) => operators[at].total.out));
  return {
    name: history.job.name ?? "?",
    since: history.job.since ?? 0,
    seconds: history.seconds,
    records,
    rate: state === "running" ? sum(sinks.map((at) => operators[at].outRate))
      : result?.throughput ?? records / (history.seconds || 1),
    latency: latency && { count: latency[0], p50: latency[1] / 1e6, p95: latency[2] / 1e6,
      p99: latency[3] / 1e6, p999: latency[4] / 1e6, max: latency[5] / 1e6 },
    tasks: taskCount(history.plan),
    errors: sum(operators.map((each) => each.total.errors ?? 0)),
    restarts: history.of("event").filter(isRestart).length,
    metrics: now.metrics ?? {},
    bottleneck: all.find((each) => each.isBottleneck) ?? null,
    blocked: Math.max(0, ...all.map((each) => each.blocked)),
  };
}

/** Whether an event is a restart behind a failure. */
export function isRestart({ event, text }) {
  return event === "warning" && String(text).startsWith("restart ");
}

/** A failure in one line, as engine/history/errors.py has it. */
export function errorLine(error) {
  const message = String(error.message ?? "").split(/\s+/).join(" ").trim();
  if (error.operator === undefined) return `${error.type ?? "error"}: ${message}`;
  const on = error.record === undefined ? "" : ` on record ${error.record}`;
  return `operator '${error.operator}' (task ${error.task ?? "?"}) failed${on}: ${message}`;
}

export function cell(record, name, at) {
  return record[name]?.[at] ?? 0;
}

function slice(record, name, [first, end]) {
  return (record[name] ?? []).slice(first, end);
}

export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

export const SHARES = ["busy", "waiting", "blocked", "idle"];
const MOMENTARY = ["backlog_bytes", "input_backlog_bytes", "watermark_lag_ms", "memory_bytes", "lag_records",
  "state_records", "checkpointed_bytes", "checkpoint_pause_ms", "checkpoint_alignment_ms", "model_version"];
const KEPT = ["checkpointed_keys", "oldest_key_ms"];
const COUNTS = ["in", "out", "late", "errors", "failures", "native", "fallbacks"];
/** Share of time blocked from which on a vertex counts as held up. */
export const HELD_UP = 0.05;
const NO_PLAN = { operators: [], vertices: [], edges: [] };
