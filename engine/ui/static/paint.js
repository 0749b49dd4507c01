/** Paints the timeline on two canvases: what happened above, and a row for each task below. */

import { HAPPENINGS, ticks } from "./spans.js";
import { clock, cut } from "./units.js";

/** What happened, checkpoints, and the axis. */
export function paintEvents(canvas, width, { moments, checkpoints }, range) {
  const [context, colour] = prepared(canvas, width, TOP);
  const x = place(width, range);
  context.font = SMALL;
  for (const t of ticks(range, (width - LABELS) / 90)) {
    line(context, x(t), 18, x(t), TOP, colour("--grid"));
    context.fillStyle = colour("--muted");
    context.textAlign = "center";
    context.fillText(t < 60 ? `${Number(t.toFixed(3))} s` : clock(t), x(t), 12);
  }
  context.textAlign = "left";
  context.fillText("events", 10, 32);
  context.fillText("checkpoints", 10, 52);
  clipped(context, width, TOP, () => {
    for (const each of checkpoints) {
      const from = x(each.from);
      context.fillStyle = colour(each.isFailed ? "--bad" : each.isSavepoint ? "--line-3" : "--line-2");
      context.fillRect(from, 42, Math.max(2, x(each.to) - from), 12);
    }
    context.font = "13px system-ui, sans-serif";
    context.textAlign = "center";
    for (const { t, what } of moments) {
      const [mark, name] = HAPPENINGS[what];
      context.fillStyle = colour(name);
      context.fillText(mark, x(t), 33);
    }
  });
}

/** The tasks: their steps, and while they run how busy and how blocked they were. */
export function paintTasks(canvas, width, { lanes, spans, heat, moments }, range) {
  const row = rowHeight(lanes.length);
  const height = Math.max(row * lanes.length, 1) + 4;
  const [context, colour] = prepared(canvas, width, height);
  const x = place(width, range);
  for (const t of ticks(range, (width - LABELS) / 90)) line(context, x(t), 0, x(t), height, colour("--grid"));
  names(context, lanes, row, width, colour);
  clipped(context, width, height, () => {
    const seen = spans.filter(({ from, to }) => to >= range[0] && from <= range[1]);
    const paint = ({ lane, from, to, step }) => {
      context.fillStyle = colour(STEPS[step] ?? "--idle");
      context.fillRect(x(from), lane * row + 1, Math.max(1, x(to) - x(from)), row - 2);
    };
    seen.filter((span) => span.step === "run").forEach(paint);
    paintHeat(context, heat, range, x, row, colour);
    seen.filter((span) => span.step !== "run").forEach(paint);
    context.globalAlpha = 0.8;
    const marked = moments.filter(({ t, what }) => MARKED.includes(what) && t >= range[0] && t <= range[1]);
    for (const { t, what } of marked.length > MOST_MARKED ? [] : marked) {
      line(context, x(t), 0, x(t), height, colour(HAPPENINGS[what][1]));
    }
    context.globalAlpha = 1;
  });
}

export function rowHeight(number) {
  return number <= 16 ? 22 : number <= 40 ? 14 : 10;
}

function paintHeat(context, heat, range, x, row, colour) {
  const hues = mixtures(colour("--busy-high"), colour("--blocked"));
  let painted = -1;
  for (const each of heat) {
    const [from, to] = [x(each.from), x(each.to)];
    if (each.to < range[0] || each.from > range[1] || to - painted < 1) continue; // under a pixel
    painted = to;
    each.lanes.forEach((lane, at) => {
      const blocked = each.blocked[at] ?? 0;
      const share = blocked + (each.busy[at] ?? 0);
      if (share < 0.02) return;
      context.globalAlpha = Math.min(1, 0.15 + share * 0.85);
      context.fillStyle = hues[Math.round((blocked / share) * (hues.length - 1))];
      context.fillRect(from, lane * row + 1, Math.max(1, to - from), row - 2);
    });
  }
  context.globalAlpha = 1;
}

/** Colours from one to the other, both as #rrggbb. */
function mixtures(one, other, steps = 8) {
  const parts = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const [a, b] = [parts(one), parts(other)];
  return Array.from({ length: steps + 1 }, (_, i) =>
    `rgb(${a.map((each, at) => Math.round(each + ((b[at] - each) * i) / steps)).join()})`);
}

/** The names of chains, each beside its first task, and the numbers of tasks where they fit. */
function names(context, lanes, row, width, colour) {
  context.font = SMALL;
  let before = null;
  lanes.forEach((lane, at) => {
    const y = at * row;
    const isFirst = lane.vertex !== before;
    before = lane.vertex;
    if (isFirst && at) line(context, 0, y, width, y, colour("--line"));
    context.textAlign = "left";
    context.fillStyle = colour("--text");
    if (isFirst) context.fillText(fitted(context, lane.vertex, LABELS - 44), 10, y + Math.max(10, row / 2 + 4));
    context.textAlign = "right";
    context.fillStyle = colour("--muted");
    if (row >= 14 || (lane.index % 4 === 0 && !isFirst)) {
      context.fillText(String(lane.index), LABELS - 8, y + Math.max(9, row / 2 + 4));
    }
  });
}

function fitted(context, text, width) {
  let most = 40;
  while (most > 4 && context.measureText(cut(text, most)).width > width) most -= 1;
  return cut(text, most);
}

function prepared(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return [context, (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim());
    return known.get(name);
  }];
}

function clipped(context, width, height, paint) {
  context.save();
  context.beginPath();
  context.rect(LABELS, 0, width - LABELS, height);
  context.clip();
  paint();
  context.restore();
}

function line(context, x1, y1, x2, y2, colour) {
  if (x1 < LABELS && x1 === x2) return;
  context.strokeStyle = colour;
  context.beginPath();
  context.moveTo(Math.round(x1) + 0.5, y1);
  context.lineTo(Math.round(x2) + 0.5, y2);
  context.stroke();
}

function place(width, [from, to]) {
  return (t) => LABELS + ((t - from) / (to - from || 1)) * (width - LABELS - 10);
}

/** The width of the names, and the height of what is above the tasks. */
export const LABELS = 170;
export const TOP = 62;
const SMALL = "11.5px system-ui, sans-serif";
const MARKED = ["failure", "restart", "rescale", "swap", "end"];
const MOST_MARKED = 60;
const STEPS = { place: "--waiting", process_id: "--waiting", deploy: "--waiting", connect: "--waiting",
  run: "--idle", commit: "--line-3", cancel: "--warn", close: "--muted" };
