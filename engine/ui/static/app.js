/** The page: the list of jobs, the head of one, and its views. Its place is in the link's hash. */

import { useJob, useJobs } from "./api.js";
import { Component, html, render, useEffect, useLayoutEffect, useState } from "./lib.js";
import { Head } from "./head.js";
import { Help, isTyping } from "./help.js";
import { Jobs } from "./jobs.js";
import { summary, vertices } from "./model.js";
import { VIEWS } from "./views.js";

function App() {
  const [place, go] = usePlace();
  const [theme, setTheme] = useTheme();
  const [isHelp, setHelp] = useState(false);
  const list = useJobs();
  const jobs = list?.jobs ?? [];
  const newest = list?.current ?? jobs.at(-1)?.job ?? null;
  const job = place.job ?? newest;
  const [found, again] = useJob(job);
  useEffect(() => {
    const onKey = (event) => {
      if (isTyping(event)) return;
      const view = VIEWS[Number(event.key) - 1];
      const at = jobs.findIndex((each) => each.job === job);
      if (event.key === "?") setHelp(true);
      else if (event.key === "t") setTheme(theme === "dark" ? "light" : "dark");
      else if (event.key === "j" && at > 0) go({ job: jobs[at - 1].job });
      else if (event.key === "k" && at >= 0 && jobs[at + 1]) go({ job: jobs[at + 1].job });
      else if (event.key === "Escape" && place.operator !== null) go({ ...place, operator: null });
      else if (view && job !== null) go({ ...place, view: view.id });
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
  const hasList = jobs.length > 1 || (jobs.length === 1 && jobs[0].job !== job);
  return html`
    <div class=${hasList ? "page has-list" : "page"}>
      ${hasList && html`<${Jobs} jobs=${jobs} job=${job} go=${go} />`}
      <main>
        ${list?.trouble && !found?.trouble && html`<p class="banner" role="alert">${list.trouble.error}. ${list.trouble.hint}</p>`}
        ${job === null ? list && !list.trouble && html`<${NoJobs} />`
          : html`<${Safe} key=${job}>
              <${Job} job=${job} found=${found} again=${again} place=${place} go=${go}
                theme=${theme} setTheme=${setTheme} onHelp=${() => setHelp(true)} /><//>`}
      </main>
      ${isHelp && html`<${Help} onClose=${() => setHelp(false)} />`}
    </div>`;
}

function Job({ job, found, again, place, go, theme, setTheme, onHelp }) {
  const [since, setSince] = useState(FIRST_RANGE);
  useEffect(() => {
    const name = found?.history?.job.name;
    document.title = name === undefined ? "Oka" : `${name} · ${found.state} · Oka`;
  }, [found?.state, found?.history?.job.name]);
  if (found === null || (found.history && found.job !== job)) {
    return html`<p class="first-words" role="status">Reading the history …</p>`;
  }
  const { history, state, actions, trouble } = found;
  if (history === null) return html`<p class="banner" role="alert">${trouble.error}. ${trouble.hint}</p>`;
  const all = vertices(history);
  const facts = summary(history, all, state);
  const current = VIEWS.find((each) => each.id === place.view) ?? VIEWS[0];
  const ranges = [since, setSince, Math.max(0, history.seconds - since)];
  const view = { job, history, state, actions, all, facts, place, go, theme, ranges, again };
  return html`
    ${trouble && html`<p class="banner" role="alert">${trouble.error}. ${trouble.hint}</p>`}
    <${Head} ...${view} setTheme=${setTheme} onHelp=${onHelp} />
    <${Tabs} current=${current} view=${view} onChoose=${(id) => go({ ...place, view: id })} />
    <div class="view" role="tabpanel" id="view" aria-labelledby=${`tab-${current.id}`}>
      <${Safe} key=${current.id}><${current.View} ...${view} /><//>
    </div>`;
}

function Tabs({ current, view, onChoose }) {
  const onKeyDown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(current) + step + VIEWS.length) % VIEWS.length];
    onChoose(next.id);
    document.getElementById(`tab-${next.id}`).focus();
  };
  return html`
    <div class="tabs" role="tablist" aria-label="Views of the job" onKeyDown=${onKeyDown}>
      ${VIEWS.map((each) => {
        const number = each.count?.(view) ?? 0;
        return html`
          <button key=${each.id} id=${`tab-${each.id}`} role="tab" aria-controls="view"
            aria-selected=${each === current} tabindex=${each === current ? 0 : -1}
            onClick=${() => onChoose(each.id)}>${each.title}${number > 0 && html`
            <span class=${each.isTrouble ? "count is-trouble" : "count"}>${number}</span>`}</button>`;
      })}
    </div>`;
}

/** What cannot be drawn, such as of a damaged file, takes nothing else with it. */
class Safe extends Component {
  componentDidCatch(error) {
    this.setState({ error });
  }

  render({ children }, { error }) {
    if (!error) return children;
    const what = `This cannot be drawn, perhaps since its history is damaged: ${error}`;
    return html`<p class="banner is-failure" role="alert">${what}</p>`;
  }
}

function NoJobs() {
  return html`
    <section class="empty">
      <h1>No job yet</h1>
      <p>Each job of yours that runs, or has run, is listed here. Start one and it appears:</p>
      <pre>oka run --ui pipeline.py</pre>
      <p>Jobs with <code>--history off</code> are not listed; those with a folder of their own are by
        <code>oka ui FOLDER</code>.</p>
    </section>`;
}

/** Where the person is, as `#job/view/operator`. */
function usePlace() {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const onChange = () => setPlace(read());
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  const go = ({ job = null, view = null, operator = null }) => {
    const parts = [job ?? place.job ?? "", view ?? "", operator ?? ""].map(encodeURIComponent);
    location.hash = parts.join("/").replace(/\/+$/, "");
  };
  return [place, go];
}

function read() {
  let parts = [];
  try {
    parts = location.hash.slice(1).split("/").map(decodeURIComponent);
  } catch {
    // a link that is damaged leads to the newest job
  }
  const [job, view, operator] = parts;
  const number = operator ? Number(operator) : NaN;
  return { job: job || null, view: view || null, operator: Number.isInteger(number) ? number : null };
}

/** Light or dark: as the person chose here, or else as the system has it. */
function useTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const [theme, setTheme] = useState(() => kept() ?? (system.matches ? "dark" : "light"));
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    const onChange = () => kept() ?? setTheme(system.matches ? "dark" : "light");
    system.addEventListener("change", onChange);
    return () => system.removeEventListener("change", onChange);
  }, []);
  return [theme, (chosen) => {
    setTheme(chosen);
    try {
      localStorage.setItem("oka-theme", chosen);
    } catch {
      // a browser that keeps nothing forgets it with the page
    }
  }];
}

function kept() {
  try {
    const theme = localStorage.getItem("oka-theme");
    return theme === "dark" || theme === "light" ? theme : null;
  } catch {
    return null;
  }
}

const FIRST_RANGE = 300; // seconds that charts show

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${Safe}><${App} /><//>`, root);
