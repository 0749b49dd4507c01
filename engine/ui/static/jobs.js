/** The list of jobs, the newest first. */

import { classes, html, useState } from "./lib.js";
import { duration, moment } from "./units.js";

export function Jobs({ jobs, job }) {
  const [text, setText] = useState("");
  const newest = [...jobs].reverse();
  const shown = newest.filter((each) => `${each.name} ${each.job} ${each.state}`.includes(text));
  const now = Date.now() / 1000;
  return html`
    <nav class="jobs" aria-label="Jobs">
      <a class="brand" href="#"><img src="/static/icon.svg" alt="" width="22" height="22" />Oka</a>
      ${jobs.length > 8 && html`
        <input type="search" placeholder="Filter jobs" aria-label="Filter jobs by name or state"
          value=${text} onInput=${(event) => setText(event.target.value)} />`}
      <ul>
        ${shown.map((each) => html`
          <li key=${each.job}>
            <a href=${`#${encodeURIComponent(each.job)}`} title=${each.job}
              class=${classes("job", each.job === job && "is-current")}
              aria-current=${each.job === job ? "page" : undefined}>
              <span class="job-name">${each.name}</span>
              <span class=${`state ${each.state}`}>${each.state}</span>
              <span class="muted">${moment(each.since, now)}</span>
              <span class="muted">${duration(each.seconds)}</span>
            </a>
          </li>`)}
        ${shown.length === 0 && html`<li class="muted none">No job matches “${text}”.</li>`}
      </ul>
    </nav>`;
}
