/** The job graph: chains as boxes, coloured by what their tasks do, and rates on the edges. */

import { classes, dagre, html, useMemo, useRef } from "./lib.js";
import { cut, percent, short } from "./units.js";

/** `selected` is the number of an operator, or null. */
export function Graph({ vertices, edges, selected, onSelect, isLive }) {
  const svg = useRef(null);
  const shape = vertices.map((each) => [each.name, each.parallelism]);
  const links = edges.map((each) => [each.source, each.target]);
  const at = useMemo(() => placed(vertices, edges), [JSON.stringify([shape, links])]);
  const first = selected ?? vertices[0]?.operators[0]?.id;
  const onKeyDown = (event) => move(event, svg.current, at);
  return html`
    <div class="graph" tabindex="-1">
      <svg ref=${svg} width=${at.width} style=${{ minWidth: `${at.width * SMALLEST}px` }}
        viewBox=${`0 0 ${at.width} ${at.height}`}
        role="group" aria-label="Job graph: arrow keys go from operator to operator"
        onKeyDown=${onKeyDown}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9"
            markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" class="arrow" /></marker>
        </defs>
        ${edges.map((edge, i) => html`
          <${Edge} key=${i} edge=${edge} points=${at.edges[i]} isLive=${isLive} />`)}
        ${vertices.map((vertex) => html`
          <${Vertex} key=${vertex.at} vertex=${vertex} place=${at.nodes[vertex.at]} first=${first}
            selected=${selected} onSelect=${onSelect} isLive=${isLive} />`)}
      </svg>
    </div>`;
}

function Vertex({ vertex, place, first, selected, onSelect, isLive }) {
  const { x, y, width, height } = place;
  const { busy, blocked, isBottleneck } = vertex;
  const tasks = vertex.parallelism === 1 ? "1 task" : `${vertex.parallelism} tasks`;
  let from = 0;
  return html`
    <g class=${classes("vertex", isBottleneck && "is-bottleneck")} data-vertex=${vertex.name}
      data-heat=${blocked > 0.05 ? "blocked" : busy > 0.05 ? "busy" : "idle"}
      transform=${`translate(${x - width / 2} ${y - height / 2})`} style=${heat(vertex)}>
      <rect class="box" width=${width} height=${height} rx="9" />
      <rect class="heat" width=${width} height=${height} rx="9" />
      <text class="small" x="12" y="20">${tasks}</text>
      ${isBottleneck && html`
        <g transform=${`translate(${width - 90} 7)`}>
          <rect class="mark" width="80" height="18" rx="9" />
          <text class="mark-text" x="40" y="13" text-anchor="middle">bottleneck</text>
        </g>`}
      ${vertex.operators.map((operator, i) => {
        const name = cut(operator.name, NAME);
        const rate = isLive ? `${short(operator.outRate)}/s` : short(operator.total.out);
        const label = `${operator.name}, ${rate} out, ${percent(busy)} busy, ${percent(blocked)} `
          + `blocked${isBottleneck ? ", bottleneck" : ""}`;
        return html`
          <g class=${classes("operator", operator.id === selected && "is-selected")}
            transform=${`translate(6 ${TOP + i * ROW})`} role="button" data-operator=${operator.id}
            tabindex=${operator.id === first ? 0 : -1} aria-label=${label}
            aria-pressed=${operator.id === selected} onClick=${() => onSelect(operator.id)}
            onKeyDown=${(event) => pressed(event, () => onSelect(operator.id))}>
            <rect width=${width - 12} height=${ROW - 2} rx="5" />
            <text class="name" x="6" y="17">${name}</text>
            <text class="rate" x=${width - 18} y="17" text-anchor="end">${rate}</text>
            <title>${operator.name}</title>
          </g>`;
      })}
      <g transform=${`translate(12 ${height - 27})`}>
        ${["busy", "waiting", "blocked"].map((name) => {
          const bar = html`<rect class=${`share ${name}`} x=${from} width=${vertex[name] * (width - 24)}
            height="4" />`;
          from += vertex[name] * (width - 24);
          return bar;
        })}
        <rect class="share-frame" width=${width - 24} height="4" rx="1" />
        <text class="small" y="18">${shares(vertex, width)}</text>
      </g>
    </g>`;
}

function Edge({ edge, points, isLive }) {
  const [middle] = points.slice(Math.floor(points.length / 2));
  const rate = isLive && edge.rate !== null ? `${short(edge.rate)}/s` : "";
  const width = 1.2 + Math.min(4, Math.log10(1 + (edge.rate ?? 0)) * 0.6);
  const side = edge.side_output ? `side output ${edge.side_output[1]}` : "";
  const how = cut([side, edge.partitioner].filter(Boolean).join(", "), 19);
  return html`
    <g class="edge">
      <path d=${curve(points)} stroke-width=${width} marker-end="url(#arrow)" />
      <text class="edge-rate" x=${middle.x} y=${middle.y - 7} text-anchor="middle">${rate}</text>
      <text class="edge-how" x=${middle.x} y=${middle.y + 16} text-anchor="middle">${how}</text>
    </g>`;
}

/** What the tasks of a vertex do, as far as there is room. */
function shares({ busy, blocked, waiting }, width) {
  const more = [[blocked, "blocked"], [waiting, "waiting"]].filter(([share]) => share >= 0.005);
  if (width < 230) more.sort(([a], [b]) => b - a).splice(1);
  return [[busy, "busy"], ...more].map(([share, name]) => `${percent(share)} ${name}`).join(" · ");
}

/** The colour of a vertex or task: yellow to orange by busy, the redder the more of it is blocked. */
export function heat({ busy, blocked }) {
  const all = busy + blocked;
  const orange = `color-mix(in oklab, var(--busy-low), var(--busy-high) ${Math.round(busy * 100)}%)`;
  const red = Math.round((100 * blocked) / (all || 1));
  return {
    "--hue": `color-mix(in oklab, ${orange}, var(--blocked) ${red}%)`,
    "--share": String(Math.min(1, Math.round(all * 100) / 100)),
  };
}

/** Enter and Space press what looks like a button. */
export function pressed(event, action) {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  action();
}

/** Where boxes and edges are. */
function placed(vertices, edges) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 36, marginx: 10, marginy: 12 });
  for (const vertex of vertices) {
    const longest = Math.max(...vertex.operators.map((each) => Math.min(NAME, each.name.length)));
    const width = Math.max(176, Math.min(280, 96 + longest * 7.4));
    graph.setNode(String(vertex.at), { width, height: TOP + vertex.operators.length * ROW + 34 });
  }
  edges.forEach((edge, i) => graph.setEdge(String(edge.source), String(edge.target),
    { width: 96, height: 30, labelpos: "c" }, String(i)));
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width: Number.isFinite(width) ? width : 0,
    height: Number.isFinite(height) ? height : 0,
    nodes: vertices.map((each) => graph.node(String(each.at))),
    edges: edges.map((each, i) =>
      graph.edge(String(each.source), String(each.target), String(i)).points),
  };
}

/** A smooth line through points. */
function curve(points) {
  const [start, ...rest] = points;
  let path = `M${start.x} ${start.y}`;
  let before = start;
  for (const point of rest) {
    const middle = (before.x + point.x) / 2;
    path += `C${middle} ${before.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    before = point;
  }
  return path;
}

/** Arrow keys: up and down in a chain, left and right to the nearest operator of another. */
function move(event, svg, at) {
  const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  const here = event.target.closest?.("[data-operator]");
  if (!step || !here) return;
  event.preventDefault();
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const [x, y] = middle(here);
  const others = [...svg.querySelectorAll("[data-operator]")].filter((each) => each !== here)
    .map((element) => {
      const [dx, dy] = [middle(element)[0] - x, middle(element)[1] - y];
      const along = dx * step[0] + dy * step[1];
      const across = Math.abs(step[0] ? dy : dx);
      return { element, along, far: along + 3 * across };
    })
    .filter((each) => each.along > 4)
    .sort((a, b) => a.far - b.far);
  others[0]?.element.focus();
}

const SMALLEST = 0.72; // of a graph that is wider than the page; then it scrolls
const NAME = 26;
const TOP = 30;
const ROW = 26;
