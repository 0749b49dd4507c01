/** Records of a history as lines of a chart. Pure. */

import { cell, sum } from "./model.js";

/** Times and a line of figures for each pick: `[[t…], [value…], …]`, null where there is no record. */
export function series(history, kind, picks, since = 0) {
  const lines = [[], ...picks.map(() => [])];
  let end = -Infinity;
  for (const record of history.of(kind)) {
    if (record.t < since) continue;
    const begin = Math.max(end, record.t - (record.seconds ?? 0));
    const values = picks.map((pick) => pick(record));
    const points = [[record.t, values]];
    if (record.t - begin > GAP) points.unshift([begin + 0.001, values]); // it is of all this time
    if (begin - end > GAP && end >= 0) points.unshift([begin, picks.map(() => null)]);
    for (const [t, each] of points) {
      lines[0].push((history.job.since ?? 0) + t);
      each.forEach((value, at) => lines[at + 1].push(value));
    }
    end = record.t;
  }
  return lines;
}

/** Picks records per second of an operator from a sample. */
export function rateOf(name, columns) {
  return (sample) => sum(columns.map((at) => cell(sample, name, at))) / (sample.seconds || 1);
}

/** Picks a share of time (0 to 1) of a vertex. */
export function shareOf(name, at) {
  return (sample) => cell(sample, name, at) / 1000;
}

const GAP = 2.5; // seconds without a record, as while a job is rescaled
