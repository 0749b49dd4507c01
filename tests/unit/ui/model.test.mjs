/** The page's model: run by test_static.py, or `node --test tests/unit/ui/`. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as model from "../../../engine/ui/static/model.js";
import * as series from "../../../engine/ui/static/series.js";
import * as units from "../../../engine/ui/static/units.js";

const PLAN = {
  kind: "plan", t: 0.1,
  operators: [{ id: 0, name: "words" }, { id: 2, name: "slow" }, { id: 1, name: "out" }],
  vertices: [
    { name: "words", operators: [0], parallelism: 1 },
    { name: "slow -> out", operators: [2, 1], parallelism: 2 },
  ],
  edges: [{ source: 0, target: 1, partitioner: "rebalance" }],
};
const SAMPLES = [
  { kind: "sample", t: 1, seconds: 1, in: [0, 5, 5], out: [10, 5, 5], busy: [100, 900], blocked: [800, 0] },
  { kind: "sample", t: 2, seconds: 1, in: [0, 7, 7], out: [10, 7, 6], busy: [100, 700], blocked: [600, 0] },
];
const TASKS = { kind: "tasks", t: 2, seconds: 2, in: [0, 8, 4], out: [20, 7, 4], memory_bytes: [5, 6, 7], watermark_lag_ms: [0, 10, 30] };

function history(...records) {
  const found = new model.JobHistory();
  found.add([{ kind: "job", t: 0, name: "a job", since: 1e9 }, ...records]);
  return found;
}

test("counts add up, and rates and shares are those of the last seconds", () => {
  const [words, slow] = model.vertices(history(PLAN, ...SAMPLES, TASKS));
  assert.deepEqual(slow.operators.map((each) => each.total.out), [12, 11]);
  assert.deepEqual(slow.operators.map((each) => each.outRate), [6, 5.5]);
  assert.deepEqual([words.busy, words.blocked], [0.1, 0.7]);
  assert.equal(slow.lag, 0.03);
});

test("the bottleneck is the busiest that is not held up, and no source", () => {
  const all = model.vertices(history(PLAN, ...SAMPLES));
  assert.deepEqual(all.map((each) => each.isBottleneck), [false, true]);
  const calm = { ...SAMPLES[0], blocked: [50, 0] };
  assert.ok(model.vertices(history(PLAN, calm)).every((each) => !each.isBottleneck));
});

test("a sample older than the last seconds counts in no rate", () => {
  const late = { ...SAMPLES[1], t: 100, out: [3, 3, 3] };
  assert.equal(model.vertices(history(PLAN, SAMPLES[0], late))[0].operators[0].outRate, 3);
});

test("tasks have what they did since the last plan", () => {
  const found = history(PLAN, TASKS, { ...TASKS, t: 4 });
  const rows = model.taskRows(found, model.vertices(found)[1]);
  assert.deepEqual(rows.map((row) => [row.index, row.in, row.inRate, row.memory_bytes]), [[0, 16, 4, 6], [1, 8, 2, 7]]);
  found.add([{ ...PLAN, t: 5 }]);
  assert.deepEqual(model.taskRows(found, model.vertices(found)[1]).map((row) => row.in), [0, 0]);
});

test("operators have what they keep, and tasks what is known of each", () => {
  const found = history(PLAN,
    { ...SAMPLES[0], checkpointed_keys: [0, 70, 0], oldest_key_ms: [0, 9000, 0] },
    { ...TASKS, lag_records: [40, 0, 0], checkpointed_bytes: [0, 300, 200], model_version: [0, 2, 3] },
    { kind: "latencies", t: 2, of: [{ vertex: 1, counts: [[1000, 3], [null, 1]], tasks: [[3, 500, 900, 1000], [1, 7e6, 7e6, 7e6]] }] },
    { kind: "checkpoint", t: 2, epoch: 1, began: 1, written_ms: [5, 20, 30] },
    { kind: "checkpoint", t: 3, epoch: 2, began: 3 });
  const [words, slow] = model.vertices(found);
  assert.deepEqual(slow.operators.map((each) => [each.keys, each.oldest]), [[70, 9], [0, 0]]);
  assert.deepEqual([words.behind, slow.behind, slow.state], [40, 0, 500]);
  assert.deepEqual([words.isEnd, slow.isEnd], [false, true]);
  const rows = model.taskRows(found, slow);
  assert.deepEqual(rows.map((row) => [row.p50, row.p99, row.written, row.checkpointed_bytes, row.model_version]),
    [[500, 900, 20, 300, 2], [7e6, 7e6, 30, 200, 3]]);
  assert.equal(model.latenciesOf(found, words), null);
  found.add([{ ...PLAN, t: 5 }]);
  assert.equal(model.latenciesOf(found, slow), null, "they are of tasks that are gone");
});

test("samples of another plan are not merged, and columns of zeros may be left out", () => {
  assert.equal(model.mergedSamples({ in: [1, 2], seconds: 1 }, { in: [1], seconds: 1 }), null);
  const merged = model.mergedSamples({ seconds: 1, busy: [1000] }, { seconds: 3, errors: [4] });
  assert.deepEqual([merged.busy, merged.errors, merged.seconds], [[250], [4], 4]);
});

test("an edge has the rate into a task with one input, else that out of its source", () => {
  const found = history(PLAN, ...SAMPLES);
  assert.deepEqual(model.edges(found, model.vertices(found)).map((each) => each.rate), [6]);
  const two = { ...PLAN, edges: [...PLAN.edges, { source: 0, target: 1, input: 1 }] };
  const both = history(two, ...SAMPLES);
  assert.deepEqual(model.edges(both, model.vertices(both)).map((each) => each.rate), [10, 10]);
});

test("a history without anything has a summary", () => {
  const empty = history();
  const all = model.vertices(empty);
  const facts = model.summary(empty, all, "running");
  assert.deepEqual([facts.records, facts.rate, facts.tasks, facts.bottleneck], [0, 0, 0, null]);
});

test("a chart has a gap where there was no sample", () => {
  const found = history(PLAN, ...SAMPLES, { ...SAMPLES[1], t: 9 });
  const lines = series.series(found, "sample", [series.rateOf("out", [0])], 1.5);
  assert.deepEqual(lines, [[1e9 + 2, 1e9 + 8, 1e9 + 9], [10, null, 10]]);
});

test("a sample of a long time is a line from its beginning to its end", () => {
  const found = history(PLAN, { ...SAMPLES[0], t: 10, seconds: 10 });
  const [times, rates] = series.series(found, "sample", [series.rateOf("out", [0])]);
  assert.deepEqual([times.length, times[1], rates], [2, 1e9 + 10, [1, 1]]);
  found.add([{ ...SAMPLES[0], t: 20, seconds: 20 }]); // says that it began before the one in front
  const [more] = series.series(found, "sample", [series.rateOf("out", [0])]);
  assert.ok(more.every((t, at) => at === 0 || t > more[at - 1]));
});

test("a failure in one line", () => {
  const error = { type: "OperatorError", operator: "parse", task: "parse[1]", record: "'x'", message: "ValueError:\n no" };
  assert.equal(model.errorLine(error), "operator 'parse' (task parse[1]) failed on record 'x': ValueError: no");
  assert.equal(model.errorLine({ type: "WorkerLost", message: "gone" }), "WorkerLost: gone");
});

test("figures have three digits and a unit that suits", () => {
  assert.deepEqual([0, 0.5, 999.4, 999.6, 45_600, 1.234e6, 5e9].map(units.short),
    ["0", "0.5", "999", "1k", "45.6k", "1.23M", "5G"]);
  assert.deepEqual([0, 85e-6, 1.2e-3, 3.4, 750, 10_000].map(units.duration),
    ["0 µs", "85 µs", "1.2 ms", "3.4 s", "12.5 min", "2.78 h"]);
  assert.deepEqual([units.clock(4.24), units.clock(187), units.clock(7387), units.clock(266_820)],
    ["4.2 s", "3:07", "2:03:07", "3 d 02:07"]);
  assert.deepEqual(units.metric("checkpoint_store_ms", 1500), ["checkpoint store", "1.5 s"]);
  assert.deepEqual(units.metric("sent_bytes", 2048), ["sent bytes", "2.05 kB"]);
});
