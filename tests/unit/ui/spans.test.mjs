/** The timeline and flame graphs of the page. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { JobHistory } from "../../../engine/ui/static/model.js";
import * as spans from "../../../engine/ui/static/spans.js";
import { flameTree } from "../../../engine/ui/static/stacks.js";

function plan(t, ...parallelisms) {
  const vertices = parallelisms.map((parallelism, at) => ({ name: "ab"[at], operators: [at], parallelism }));
  return { kind: "plan", t, operators: [], vertices, edges: [] };
}

function history(...records) {
  const found = new JobHistory();
  found.add(records);
  return found;
}

test("each task has the steps that it took, also across a rescale", () => {
  const found = history(plan(0, 1, 2),
    { kind: "step", t: 1, step: "deploy", attempt: 0 },
    { kind: "done", t: 2, step: "deploy", attempt: 0, tasks: [0, 2] },
    { kind: "step", t: 3, step: "run", attempt: 0 },
    { kind: "done", t: 4, step: "deploy", attempt: 0, tasks: [1] }, // of a step that is over
    plan(6, 1, 3),
    { kind: "step", t: 7, step: "run", attempt: 0 },
    { kind: "event", t: 9, event: "warning", text: "late" });
  const { lanes, spans: all } = spans.lanes(found);
  assert.deepEqual(lanes.map((each) => each.name), ["a[0]", "b[0]", "b[1]", "b[2]"]);
  const of = (lane) => all.filter((each) => each.lane === lane).map((each) => [each.step, each.from, each.to]);
  assert.deepEqual(of(0), [["deploy", 1, 2], ["run", 3, 6], ["run", 7, 9]]);
  assert.deepEqual(of(1), [["deploy", 1, 3], ["run", 3, 6], ["run", 7, 9]]);
  assert.deepEqual(of(3), [["run", 7, 9]]);
});

test("how busy tasks were belongs to the plan of its time", () => {
  const found = history(plan(0, 1, 2), { kind: "tasks", t: 2, seconds: 1, busy: [100, 200, 300] },
    plan(5, 1, 1), { kind: "tasks", t: 6, seconds: 6, blocked: [500, 0] });
  const { heat } = spans.lanes(found);
  assert.deepEqual(heat.map((each) => [each.from, each.to, each.lanes]), [[1, 2, [0, 1, 2]], [5, 6, [0, 1]]]);
  assert.deepEqual([heat[0].busy, heat[0].blocked, heat[1].blocked], [[0.1, 0.2, 0.3], [], [0.5, 0]]);
});

test("what happened has a kind and a text", () => {
  const found = history(
    { kind: "event", t: 1, event: "warning", text: "restart 1 of 10 in 0.1 s: x" },
    { kind: "event", t: 2, event: "rescaled", parallelism: 4, savepoint: "s" },
    { kind: "error", t: 3, type: "E", message: "no" },
    { kind: "checkpoint", t: 4, epoch: 7, failed: "disk full" },
    { kind: "sample", t: 5, metrics: { model_version: 1 } },
    { kind: "sample", t: 6, metrics: {} },
    { kind: "sample", t: 7, metrics: { model_version: 3 } },
    { kind: "event", t: 8, event: "stop requested" },
    { kind: "end", t: 9, state: "finished" });
  const all = spans.happenings(found);
  assert.deepEqual(all.map((each) => each.what),
    ["restart", "rescale", "failure", "failure", "swap", "swap", "request", "end"]);
  assert.equal(all[1].text, "rescaled, parallelism 4, savepoint s");
  assert.equal(all[5].text, "tasks use version 3 of the model");
  assert.ok(all.every((each) => each.what in spans.HAPPENINGS));
});

test("checkpoints are spans, to now while they are under way", () => {
  const found = history({ kind: "checkpoint", t: 1, epoch: 1, began: 1, stored: 2, committed: 3 },
    { kind: "checkpoint", t: 4, epoch: 2, began: 4 }, { kind: "log", t: 6, text: "" });
  assert.deepEqual(spans.checkpointSpans(found).map((each) => [each.from, each.to]), [[1, 3], [4, 6]]);
});

test("a checkpoint's records are one row with its phases", () => {
  const found = history(
    { kind: "checkpoint", t: 1, epoch: 1, began: 1 },
    { kind: "checkpoint", t: 1.5, epoch: 1, began: 1, written_ms: [20, 300, 10], aligned: 1.3, bytes: 9, stored: 1.5 },
    { kind: "checkpoint", t: 1.75, epoch: 1, committed: 1.75 },
    { kind: "checkpoint", t: 2, epoch: 2, failed: "disk full" });
  const [failed, done] = spans.checkpointRows(found);
  assert.deepEqual([failed.state, failed.failed, done.state, done.total], ["failed", "disk full", "committed", 0.75]);
  assert.deepEqual(done.phases.map(([, seconds]) => Number(seconds.toFixed(3))), [0.3, 0.2, 0.25]);
  assert.deepEqual(done.slowest, { task: "task 1", seconds: 0.3 });
});

test("a zoom keeps what is under the pointer, and the view stays within the job", () => {
  assert.deepEqual(spans.zoomed([0, 100], 50, 0.5, 100), [25, 75]);
  assert.deepEqual(spans.zoomed([25, 75], 75, 4, 100), [0, 100]);
  assert.deepEqual(spans.moved([10, 20], -50, 100), [0, 10]);
  assert.deepEqual(spans.moved([10, 20], 500, 100), [90, 100]);
  const [from, to] = spans.zoomed([0, 0.03], 0.01, 0.001, 100);
  assert.ok(to - from >= 0.02 - 1e-9);
  assert.deepEqual(spans.ticks([0, 10], 5), [0, 2, 4, 6, 8, 10]);
  assert.ok(spans.ticks([0, 1e7], 10).length <= 12);
});

test("stacks become a tree, the most seen first", () => {
  const { root, all } = flameTree([["a;b", 1], ["a;c;b", 3], ["a", 1], ["__proto__;x", 2]]);
  assert.equal(root.count, 7);
  assert.deepEqual(root.children.map((each) => [each.name, each.count]), [["a", 5], ["__proto__", 2]]);
  assert.deepEqual(all.get(";a").children.map((each) => each.name), ["c", "b"]);
  assert.deepEqual(flameTree([]).root.children, []);
});
