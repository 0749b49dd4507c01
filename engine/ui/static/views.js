/** The views of a job, in the order of their tabs. */

import { JobDetail, OperatorDetail } from "./detail.js";
import { Flame } from "./flame.js";
import { Graph } from "./graph.js";
import { html } from "./lib.js";
import { edges } from "./model.js";
import { Checkpoints, Errors, Log, Settings } from "./panels.js";
import { Timeline } from "./timeline.js";

export const VIEWS = [
  { id: "graph", title: "Graph", View: GraphView },
  { id: "timeline", title: "Timeline", View: Timeline },
  { id: "checkpoints", title: "Checkpoints", View: Checkpoints },
  { id: "errors", title: "Errors", View: Errors, isTrouble: true, count: numberOfErrors },
  { id: "log", title: "Log", View: Log },
  { id: "flame", title: "Flame graph", View: Flame },
  { id: "settings", title: "Settings", View: Settings },
];

function GraphView({ history, state, all, facts, place, go, theme, ranges }) {
  const [seconds, setSeconds, since] = ranges;
  const select = (operator) => go({ ...place, view: "graph", operator });
  const vertex = all.find((each) => each.operators.some((one) => one.id === place.operator));
  const operator = vertex?.operators.find((each) => each.id === place.operator);
  if (!all.length) return html`<p class="empty">The job has no plan yet: it is starting.</p>`;
  return html`
    <${Graph} vertices=${all} edges=${edges(history, all)} selected=${operator?.id ?? null}
      onSelect=${select} isLive=${state === "running"} />
    <div class="range" role="group" aria-label="Time of the charts">
      ${RANGES.map(([each, name]) => html`
        <button key=${each} class="quiet" aria-pressed=${each === seconds}
          onClick=${() => setSeconds(each)}>${name}</button>`)}
    </div>
    ${operator
      ? html`<${OperatorDetail} history=${history} all=${all} vertex=${vertex} operator=${operator} since=${since}
          theme=${theme} onClose=${() => select(null)} />`
      : html`<${JobDetail} history=${history} all=${all} facts=${facts} since=${since} theme=${theme} />`}`;
}

function numberOfErrors({ history }) {
  return Math.max(history.of("error").length, history.failure ? 1 : 0);
}

const RANGES = [[300, "5 min"], [3600, "1 h"], [Infinity, "all"]];
