/** The libraries in `vendor`, which index.html loads in front of all modules, by the names used here. */
const { preact, preactHooks, htm, uPlot, dagre } = globalThis;

export const { render, Component, Fragment } = preact;
export const { useEffect, useLayoutEffect, useMemo, useRef, useState } = preactHooks;
/** Elements from a template. Texts in it are text nodes, whatever they hold. */
export const html = htm.bind(preact.h);
export { uPlot, dagre };

/** The classes whose condition holds. */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}
