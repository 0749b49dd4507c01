/** Lines over time, drawn by uPlot. */

import { html, uPlot, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";

/**
 * A chart. `lines` are `{name, colour}`, where the colour is a variable of style.css; `data` has the
 * times and a list for each line; `format` makes a text of a value.
 */
export function Chart({ title, lines, data, format, height = 150, most, theme }) {
  const place = useRef(null);
  const chart = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  const names = lines.map((each) => each.name).join();
  useEffect(() => {
    if (!width) return undefined;
    chart.current = new uPlot(options(lines, format, width, height, most), data, place.current);
    return () => chart.current.destroy();
  }, [names, width > 0, theme, height]);
  useEffect(() => chart.current?.setData(data), [data]);
  useEffect(() => width && chart.current?.setSize({ width, height }), [width, height]);
  const last = lines.map((each, i) => `${each.name} ${format(data[i + 1].at(-1) ?? 0)}`).join(", ");
  return html`
    <figure class="chart" role="group" aria-label=${`${title}; now ${last}`}>
      <figcaption><span>${title}</span>
        <span class="legend">${lines.map((each, i) => html`
          <span key=${each.name}><i class="dot" style=${{ background: `var(${each.colour})` }}></i
            >${each.name} <b>${format(data[i + 1].at(-1) ?? 0)}</b></span>`)}</span></figcaption>
      <div ref=${place} class="canvas" style=${{ height: `${height}px` }} aria-hidden="true"></div>
    </figure>`;
}

function options(lines, format, width, height, most) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false }, font: "11px system-ui, sans-serif",
  };
  return {
    width, height, legend: { show: false }, padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, _least, largest) => [0, most ?? (largest > 0 ? largest * 1.1 : 1)] } },
    axes: [
      { ...axis, size: 24, space: 70, incrs: SECONDS, values: times },
      { ...axis, size: 52, space: 28, values: (_, values) => values.map(format) },
    ],
    series: [{}, ...lines.map((each) => ({
      label: each.name, stroke: colour(each.colour), width: 1.6,
      points: { show: false }, fill: each.fill ? `${colour(each.colour)}22` : undefined,
    }))],
    hooks: { setCursor: [tip(lines, format)] },
  };
}

/** What the lines have where the pointer is, as a text beside it. */
function tip(lines, format) {
  let box = null;
  return (chart) => {
    if (box === null) {
      box = document.createElement("div");
      box.className = "tip";
      chart.over.append(box);
    }
    const { idx, left } = chart.cursor;
    box.hidden = idx === null || idx === undefined || left < 0;
    if (box.hidden) return;
    const at = new Date(chart.data[0][idx] * 1000).toTimeString().slice(0, 8);
    const values = lines.map((each, i) => `${each.name} ${format(chart.data[i + 1][idx] ?? 0)}`);
    box.textContent = [at, ...values].join("\n");
    box.style.left = left > chart.over.clientWidth / 2 ? "" : `${left + 10}px`;
    box.style.right = left > chart.over.clientWidth / 2
      ? `${chart.over.clientWidth - left + 10}px` : "";
  };
}

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

function times(_, values) {
  const step = values.length > 1 ? values[1] - values[0] : 1;
  return values.map((each) => {
    const text = new Date(each * 1000).toTimeString();
    if (step >= 43200) return new Date(each * 1000).toDateString().slice(4, 10);
    return step < 60 ? text.slice(0, 8) : text.slice(0, 5);
  });
}
