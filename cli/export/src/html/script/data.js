// The tables that the page was made with, or, on a page of a session that goes on, the latest ones.

/** What follows from the data: computed at once, and again whenever newer data come. */
const derivations = [];

function derive(compute) {
  derivations.push(compute);
  compute();
}

const isDiff = globalThis.recorded.base !== null;

/** Columns of a row: innermost node, cause, thread; then this many for each side. */
const HEAD = 3, PER_SIDE = 7, SUMS = 5;

let data, sides, tree, rows, stacks, shorts;

derive(() => {
  data = globalThis.recorded;
  sides = isDiff ? [data.now, data.base] : [data.now];
  tree = data.tree;
  rows = {
    length: data.rows.length,
    node: Int32Array.from(data.rows, (row) => row[0]),
    cause: Int32Array.from(data.rows, (row) => row[1]),
    thread: Int32Array.from(data.rows, (row) => row[2]),
  };
  stacks = callsOfRows();
  // By the number of a function: its name as people write it, where the whole one is longer.
  shorts = new Map(tree.shorts || []);
});

/** The calls of each row, the outermost first, one row after the other. */
function callsOfRows() {
  const depth = new Int32Array(tree.nodes.length + 1);
  const outer = (node) => node - tree.parents[node - 1];
  for (let node = 1; node < depth.length; node++) depth[node] = depth[outer(node)] + 1;
  const starts = new Int32Array(rows.length + 1);
  for (let row = 0; row < rows.length; row++) starts[row + 1] = starts[row] + depth[rows.node[row]];
  const calls = new Int32Array(starts[rows.length]);
  for (let row = 0; row < rows.length; row++) {
    let node = rows.node[row];
    for (let at = starts[row + 1] - 1; at >= starts[row]; at--) {
      calls[at] = tree.nodes[node - 1];
      node = outer(node);
    }
  }
  return { starts, calls };
}

/** The call that caused what a row holds. */
function causeOf(row) {
  return stacks.calls[stacks.starts[row + 1] - 1 - rows.cause[row]];
}

function functionOf(call) {
  return tree.functions[tree.calls[call][0]];
}

function base(path) {
  return path.slice(path.lastIndexOf('/') + 1);
}

function fullName(call) {
  return functionOf(call)[0];
}

/** The name to be shown: short, unless the reader wants whole ones. */
function shownName(call) {
  return (!state.full && shorts.get(tree.calls[call][0])) || fullName(call);
}

/** The whole name, where another one is shown. */
function fullIfShort(call) {
  return shownName(call) === fullName(call) ? null : fullName(call);
}

/** Where a call is in the source, as far as that is known. */
function place(call) {
  const [, file] = functionOf(call), line = tree.calls[call][1];
  return file === '' ? '' : line > 0 ? `${base(file)}:${line}` : base(file);
}

function moduleOf(call) {
  return base(tree.modules[functionOf(call)[2]]);
}

function dotted(...texts) {
  return texts.filter((text) => text !== '').join(' \u00b7 ');
}

function whereabouts(call) {
  return dotted(place(call), moduleOf(call));
}

