/** What the server is asked: the jobs, the records of one of them, and actions. */

import { useEffect, useRef, useState } from "./lib.js";
import { JobHistory } from "./model.js";

/** The list of jobs: `{jobs, current, trouble}`, the last one that was had. It is asked for every few seconds. */
export function useJobs() {
  const [found, setFound] = useState(null);
  useEffect(() => poll(async () => {
    const answer = await asked("/api/jobs");
    const isTrouble = answer.error !== undefined;
    setFound((before) => (isTrouble ? { jobs: [], current: null, ...before, trouble: answer } : answer));
    return LIST_SECONDS;
  }), []);
  return found;
}

/** The history of a job as it is now: `{history, state, actions, trouble}`; `again` asks at once. */
export function useJob(job) {
  const [found, setFound] = useState(null);
  const again = useRef(() => {});
  useEffect(() => {
    setFound(null);
    if (job === null) return undefined;
    let [history, generation, next] = [new JobHistory(), null, 0];
    const stop = poll(async (isOver) => {
      const query = generation === null ? "" : `?generation=${generation}&after=${next}`;
      const answer = await asked(`/api/jobs/${encodeURIComponent(job)}${query}`);
      if (isOver()) return null;
      if (answer.error !== undefined) {
        setFound((before) => ({ ...(before ?? { history: null, actions: [] }), trouble: answer }));
        return TROUBLE_SECONDS;
      }
      if (answer.generation !== generation) history = new JobHistory();
      const { state, actions = [] } = answer;
      try {
        history.add(answer.records);
      } catch (error) {
        const trouble = { error: `this history cannot be shown: ${error}`, hint: "is its file whole?" };
        setFound((before) => ({ ...(before ?? { history: null, actions: [] }), trouble }));
        return null;
      }
      ({ generation, next } = answer);
      setFound({ job, history, state, actions, trouble: null });
      return state === "running" ? LIVE_SECONDS : null;
    });
    again.current = stop.again;
    return stop;
  }, [job]);
  return [found, () => again.current()];
}

/** Ask for an action; gives `{said}` or `{error, hint}`. */
export function act(job, action, body) {
  return asked(`/api/jobs/${encodeURIComponent(job)}/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, credentials: "same-origin", cache: "no-store" });
  } catch {
    return { error: "The program that serves this page has ended, or does not answer",
      hint: "What is here stays. oka ui shows it again." };
  }
  try {
    const answer = await response.json();
    if (response.ok || answer.error !== undefined) return answer;
  } catch {
    // what is no JSON is told by its status
  }
  const isOut = response.status === 401 || response.status === 403;
  const hint = isOut ? "open the link again that the program has printed" : "";
  return { error: `the server answered with status ${response.status}`, hint };
}

/** Ask again and again, after as many seconds as `ask` says, while the page is seen. */
function poll(ask) {
  let [isOver, isAsking, isAgain, timer] = [false, false, false, null];
  async function go() {
    timer = null;
    if (isOver || isAsking) return;
    isAsking = true;
    const seconds = await ask(() => isOver);
    isAsking = false;
    if (isOver) return;
    if (isAgain) {
      isAgain = false;
      go();
    } else if (seconds !== null) timer = setTimeout(() => !document.hidden && go(), seconds * 1000);
  }
  function again() {
    isAgain = isAsking;
    clearTimeout(timer);
    go();
  }
  const seen = () => !document.hidden && again();
  document.addEventListener("visibilitychange", seen);
  go();
  return Object.assign(() => {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
  }, { again });
}

const LIVE_SECONDS = 1;
const LIST_SECONDS = 5;
const TROUBLE_SECONDS = 3;
