/** Buttons of what may be done about a job now, with what they ask and how it was answered. */

import { act } from "./api.js";
import { Window } from "./help.js";
import { html, useEffect, useState } from "./lib.js";

export function Actions({ job, actions, again, parallelism }) {
  const [open, setOpen] = useState(null);
  const [answer, setAnswer] = useState(null);
  const run = async (action, body) => {
    setOpen(null);
    setAnswer({ said: `${TITLES[action]}: asked …` });
    setAnswer(await act(job, action, body));
    again();
  };
  const shown = Object.keys(TITLES).filter((each) => actions.includes(each));
  return html`
    ${shown.map((each) => html`
      <button key=${each} class=${each === "cancel" ? "danger" : ""} onClick=${() => setOpen(each)}
        >${TITLES[each]}</button>`)}
    ${open && html`
      <${Question} action=${open} parallelism=${parallelism} onClose=${() => setOpen(null)}
        onRun=${(body) => run(open, body)} />`}
    <${Answer} answer=${answer} onClose=${() => setAnswer(null)} />`;
}

/** What the server said: for some seconds, or an error until it is closed. */
export function Answer({ answer, onClose }) {
  useEffect(() => {
    if (!answer || answer.error) return undefined;
    const timer = setTimeout(onClose, SAID_SECONDS * 1000);
    return () => clearTimeout(timer);
  }, [answer]);
  const isError = answer?.error !== undefined;
  return html`
    <div class="answers" role=${isError ? "alert" : "status"}>
      ${answer && html`
        <div class=${isError ? "answer is-error" : "answer"}>
          <span>${isError ? answer.error : answer.said}${answer.hint && html`
            <span class="hint">hint: ${answer.hint}</span>`}</span>
          <button class="quiet" aria-label="Close" onClick=${onClose}>✕</button>
        </div>`}
    </div>`;
}

function Question({ action, parallelism, onClose, onRun }) {
  const [value, setValue] = useState(action === "rescale" ? String(parallelism ?? 1) : "");
  const { text, label, button } = QUESTIONS[action];
  const number = Number(value);
  const isWrong = action === "rescale" && !(Number.isInteger(number) && number >= 1);
  const onSubmit = (event) => {
    event.preventDefault();
    if (isWrong) return;
    if (action === "rescale") onRun({ parallelism: number });
    else onRun(action === "savepoint" && value.trim() ? { name: value.trim() } : {});
  };
  return html`
    <${Window} title=${TITLES[action]} onClose=${onClose}>
      <form onSubmit=${onSubmit}>
        <p>${text}</p>
        ${label && html`
          <label>${label}
            <input value=${value} onInput=${(event) => setValue(event.target.value)} data-first
              inputmode=${action === "rescale" ? "numeric" : undefined} aria-invalid=${isWrong} />
          </label>`}
        <div class="buttons">
          <button type="button" data-first=${label ? undefined : ""} onClick=${onClose}>Back</button>
          <button type="submit" class=${action === "cancel" ? "danger primary" : "primary"}
            disabled=${isWrong}>${button}</button>
        </div>
      </form>
    <//>`;
}

const TITLES = { savepoint: "Savepoint", rescale: "Rescale", stop: "Stop", cancel: "Cancel" };
const QUESTIONS = {
  savepoint: {
    text: "Store a checkpoint that is kept. The job goes on.",
    label: "Name (optional)",
    button: "Store the savepoint",
  },
  rescale: {
    text: "Go on with another number of tasks: the job stops behind a savepoint and starts from it.",
    label: "Parallelism",
    button: "Rescale the job",
  },
  stop: {
    text: "Sources end, and all records that are on their way reach the sinks. Then the job has finished.",
    button: "Stop the job",
  },
  cancel: {
    text: "The job ends at once. Records on their way are dropped, and output that is not final is not made so.",
    button: "Cancel the job",
  },
};
const SAID_SECONDS = 8;
