/** Stacks of a sampled thread as the tree that a flame graph draws. Pure. */

/**
 * Of `[["outer;inner", count], …]` the root, whose children begin with the most seen, and all nodes by
 * their path.
 */
export function flameTree(stacks) {
  const root = { name: "all", path: "", count: 0, children: [] };
  const all = new Map([["", root]]);
  for (const [stack, count] of stacks) {
    root.count += count;
    let node = root;
    for (const name of String(stack).split(";")) {
      const path = `${node.path};${name}`;
      let child = all.get(path);
      if (!child) {
        child = { name, path, count: 0, children: [] };
        all.set(path, child);
        node.children.push(child);
      }
      child.count += count;
      node = child;
    }
  }
  for (const node of all.values()) {
    node.children.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
  }
  return { root, all };
}
