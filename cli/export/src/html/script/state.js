// What the reader chose, and what shows it.

const INITIAL = {
  metric: 0,
  unit: 0,
  thread: -1,
  /** In milliseconds from one to another; `null`: the whole session. */
  time: null,
  /** The same in spans, where sums of windows are known: from one to before another. */
  window: null,
  direction: 'down',
  shape: 'icicle',
  width: isDiff ? 'change' : 'now',
  lines: false,
  allocators: false,
  interpreters: false,
  /** Whether names of functions are shown whole. */
  full: false,
  /** Whether the timeline shows the control group. */
  group: false,
  query: '',
  path: [],
  /** The column that places are sorted by; `null`: that of the measure. */
  sort: null,
  ascending: false,
  /** The place whose stack is shown. */
  open: null,
};

const state = { ...INITIAL };

/** Whether newer data come, and whether what is shown is about to change for that reason. */
const isLive = data.live !== undefined, live = { isRenewing: false };

const watchers = [];

/** Calls `render` whenever one of these changes, and once now; with newer data, too, whatever these are. */
function watch(names, render) {
  watchers.push({ names, render });
  render();
}

function isSameChoice(a, b) {
  return a === b || (Array.isArray(a) && Array.isArray(b) && String(a) === String(b));
}

function update(changes) {
  const changed = Object.keys(changes).filter((name) => !isSameChoice(state[name], changes[name]));
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

