// What the reader chose, and who wants to know.

const state = {
  metric: 0,
  unit: 0,
  thread: -1,
  /** Spans: from one to before another; `null`: the whole session. */
  window: null,
  direction: 'down',
  shape: 'icicle',
  width: isDiff ? 'change' : 'now',
  lines: false,
  allocators: false,
  query: '',
  path: [],
};

const watchers = [];

/** Calls `render` whenever one of these changes, and once now. */
function watch(names, render) {
  watchers.push({ names, render });
  render();
}

function update(changes) {
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  Object.assign(state, changes);
  for (const { names, render } of watchers) {
    if (names.some((name) => changed.includes(name))) render();
  }
}

/** Bytes (0) or blocks (1); blocks of pages are not counted. */
function unitOf(metric) {
  return METRICS[metric].pages ? 0 : state.unit;
}

function unit() {
  return unitOf(state.metric);
}

function isShown(row) {
  return state.thread < 0 || rows.thread[row] === state.thread;
}

