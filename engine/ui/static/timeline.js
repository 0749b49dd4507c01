/** The timeline: what happened, checkpoints, and the steps of each task, with zoom. */

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import { paintEvents, paintTasks, LABELS, rowHeight, TOP } from "./paint.js";
import { checkpointSpans, happenings, HAPPENINGS, lanes, moved, zoomed } from "./spans.js";
import { clock, cut, percent } from "./units.js";

export function Timeline({ history, theme }) {
  const end = Math.max(history.seconds, 0.1);
  const [chosen, setRange] = useState(null); // null is all
  const range = chosen ?? [0, end];
  const [told, setTold] = useState("");
  const [width, setWidth] = useState(0);
  const place = useRef(null);
  const canvases = [useRef(null), useRef(null)];
  const now = useRef({});
  const found = useMemo(() => ({ ...lanes(history), moments: happenings(history),
    checkpoints: checkpointSpans(history) }), [history, history.seconds]);
  now.current = { range, end, width, found };

  const zoom = (t, factor) => {
    const next = zoomed(now.current.range, t, factor, now.current.end);
    setRange(next[1] - next[0] >= now.current.end ? null : next);
  };
  const pan = (seconds) => setRange(moved(now.current.range, seconds, now.current.end));

  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return;
    paintEvents(canvases[0].current, width, found, range);
    paintTasks(canvases[1].current, width, found, range);
  }, [found, width, range[0], range[1], theme]);
  useEffect(() => withPointer(place.current, now, { zoom, pan, setTold }), []);

  const onKeyDown = (event) => {
    if (event.target !== place.current) return;
    const [from, to] = range;
    const step = (to - from) / 8;
    if (event.key === "ArrowLeft") pan(-step);
    else if (event.key === "ArrowRight") pan(step);
    else if (event.key === "+" || event.key === "=") zoom((from + to) / 2, 0.5);
    else if (event.key === "-") zoom((from + to) / 2, 2);
    else if (event.key === "0") setRange(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const show = (t) => {
    const seconds = Math.min(10, end);
    setRange(moved([t - seconds / 2, t + seconds / 2], 0, end));
  };
  const label = `Timeline of ${found.lanes.length} tasks from ${clock(range[0])} to ${clock(range[1])}; `
    + "arrow keys move it, plus and minus zoom, 0 shows all. What happened is in the table below.";
  return html`
    <div class="toolbar">
      <span class="legend">
        ${LEGEND.map(([name, what]) => html`<span key=${what}><i class=${`dot ${name}`}></i>${what}</span>`)}
      </span>
      <span class="muted told">${told}</span>
      <span class="buttons">
        <button class="quiet" onClick=${() => zoom((range[0] + range[1]) / 2, 2)} aria-label="Zoom out">−</button>
        <button class="quiet" onClick=${() => zoom((range[0] + range[1]) / 2, 0.5)} aria-label="Zoom in">+</button>
        <button class="quiet" onClick=${() => setRange(null)} aria-pressed=${chosen === null}>all</button>
      </span>
    </div>
    <div class="timeline" ref=${place} tabindex="0" role="group" aria-label=${label}
      onKeyDown=${onKeyDown}>
      <canvas ref=${canvases[0]} class="events" aria-hidden="true"></canvas>
      <canvas ref=${canvases[1]} class="tasks" aria-hidden="true"></canvas>
    </div>
    <h2 class="part below">What happened</h2>
    ${found.moments.length === 0
      ? html`<p class="muted">Nothing yet. Restarts, rescales, swaps of models, requests and errors come here.</p>`
      : html`<${Happened} moments=${found.moments} onShow=${show} />`}`;
}

function Happened({ moments, onShow }) {
  return html`
    <div class="table-place" tabindex="0" role="region" aria-label="What happened">
      <table>
        <thead><tr><th class="words" scope="col">at</th><th class="words" scope="col">what</th>
          <th class="words" scope="col">text</th></tr></thead>
        <tbody>
          ${[...moments].reverse().map(({ t, what, text }, i) => html`
            <tr key=${moments.length - i}>
              <td class="words at"><button class="link" onClick=${() => onShow(t)}
                title="Show it in the timeline">${clock(t)}</button></td>
              <td class=${`words what ${what}`}><span aria-hidden="true">${HAPPENINGS[what][0]}</span> ${what}</td>
              <td class="words text">${cut(text, 600)}</td>
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

/** Wheel and drag; and what lies under the pointer, as a text. */
function withPointer(element, now, { zoom, pan, setTold }) {
  const timeAt = (event) => {
    const { range, width } = now.current;
    const x = event.clientX - element.getBoundingClientRect().left - LABELS;
    return [range[0] + (x / Math.max(1, width - LABELS)) * (range[1] - range[0]), x];
  };
  const onWheel = (event) => {
    const [t, x] = timeAt(event);
    if (x < 0 || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    zoom(t, event.deltaY > 0 ? 1.25 : 0.8);
  };
  let last = null;
  const onDown = (event) => {
    if (event.button !== 0 || timeAt(event)[1] < 0) return;
    last = event;
    element.setPointerCapture(event.pointerId);
  };
  const onMove = (event) => {
    const { range, width } = now.current;
    if (last) {
      pan(((last.clientX - event.clientX) / Math.max(1, width - LABELS)) * (range[1] - range[0]));
      element.scrollTop += last.clientY - event.clientY;
      last = event;
    }
    const y = event.clientY - element.getBoundingClientRect().top;
    setTold(under(now.current.found, timeAt(event)[0], y, y - TOP + element.scrollTop, range));
  };
  const onUp = () => { last = null; };
  const onLeave = () => setTold("");
  const heard = { wheel: onWheel, pointerdown: onDown, pointermove: onMove, pointerup: onUp,
    pointercancel: onUp, pointerleave: onLeave };
  for (const [name, each] of Object.entries(heard)) element.addEventListener(name, each, { passive: false });
  return () => {
    for (const [name, each] of Object.entries(heard)) element.removeEventListener(name, each);
  };
}

function under(found, t, y, yOfTasks, range) {
  const near = (range[1] - range[0]) / 120;
  if (y < TOP) {
    const moment = found.moments.findLast((each) => Math.abs(each.t - t) < near);
    const checkpoint = found.checkpoints.findLast((each) => each.from - near <= t && t <= each.to + near);
    const [isMoment, other] = y < TOP - 22 ? [moment, checkpoint] : [null, checkpoint ?? null];
    if (isMoment) return cut(`${clock(moment.t)}: ${moment.text}`, 120);
    return other && y >= TOP - 22 ? `${other.name}, ${clock(other.from)}` : clock(Math.max(0, t));
  }
  const lane = found.lanes[Math.floor(yOfTasks / rowHeight(found.lanes.length))];
  if (!lane) return "";
  const span = found.spans.findLast((each) => each.lane === lane.number && each.from <= t && t <= each.to);
  const heat = found.heat.findLast((each) => each.from <= t && t <= each.to);
  const at = heat?.lanes.indexOf(lane.number) ?? -1;
  const shares = span?.step === "run" && at >= 0
    ? `, ${percent(heat.busy[at] ?? 0)} busy, ${percent(heat.blocked[at] ?? 0)} blocked` : "";
  return `${clock(Math.max(0, t))} ${cut(lane.name, 60)}: ${span ? `${span.step}, attempt ${span.attempt}` : "–"}${shares}`;
}

const LEGEND = [["starts", "starts"], ["run", "runs"], ["busy", "busy"], ["blocked", "blocked"],
  ["ends", "commits, ends"], ["checkpoint", "checkpoint"]];
