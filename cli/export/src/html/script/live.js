// A page of a session that goes on: newer data come as they are recorded, and the reader's choices stay.

/** Between two requests for newer data, in milliseconds; and drawing takes one part in so many of the time. */
const PERIOD = 1000, DRAWING = 4;

Object.assign(live, {
  isPaused: false,
  isOver: data.live.is_over,
  /** Whether there is something newer than what was fetched last. */
  isNewer: false,
  /** What came, as text, until it is shown. */
  text: null,
  asking: null,
  notBefore: 0,
  isPointerDown: false,
  isAway: false,
  /** For how long nothing was recorded, and whether a process still has the recording open, if that is known. */
  quiet: null,
});

function showLive() {
  byId('live').hidden = false;
  // It would be read out each second.
  byId('headline').setAttribute('aria-live', 'off');
  byId('live-pause').addEventListener('click', () => {
    live.isPaused = !live.isPaused;
    showNewer();
  });
  for (const [event, isDown] of [['pointerdown', true], ['pointerup', false], ['pointercancel', false]]) {
    document.addEventListener(event, () => { live.isPointerDown = isDown; setTimeout(showNewer); }, true);
  }
  document.addEventListener('selectionchange', showNewer);
  document.addEventListener('visibilitychange', () => { showNewer(); ask(); });
  tellLive();
  if (!live.isOver) followChanges(new EventSource('changes'));
}

function followChanges(source) {
  source.addEventListener('open', () => { live.isAway = false; tellLive(); });
  source.addEventListener('error', () => { live.isAway = true; tellLive(); });
  source.addEventListener('changed', () => {
    live.isNewer = true;
    live.quiet = null;
    tellLive();
    ask();
  });
  source.addEventListener('quiet', (event) => {
    live.quiet = JSON.parse(event.data);
    tellLive();
  });
  // The last: the server waits until it was fetched.
  source.addEventListener('end', async () => {
    await live.asking;
    live.isNewer = true;
    await ask(true);
    source.close();
    live.isOver = true;
    showNewer();
  });
}

/** Asks for what is newer, if anything is; a page that is not seen asks only for the last. */
function ask(isLast = false) {
  if (live.asking !== null || !live.isNewer || live.isOver) return live.asking;
  if (!isLast && (document.hidden || live.text !== null)) return null;
  const left = live.notBefore - performance.now();
  if (!isLast && left > 0) {
    clearTimeout(live.timer);
    live.timer = setTimeout(ask, left);
    return null;
  }
  live.isNewer = false;
  live.asking = fetchData().finally(() => {
    live.asking = null;
    showNewer();
    if (live.isNewer) ask();
  });
  return live.asking;
}

async function fetchData() {
  live.notBefore = performance.now() + PERIOD;
  try {
    const answer = await fetch('data', { cache: 'no-store' });
    if (answer.ok) live.text = await answer.text();
  } catch { /* The stream says that the server is away, and what is new when it is back. */ }
}

/** Whether new numbers would be in the way: of a drag, of text that is being selected. */
function isBusy() {
  return live.isPointerDown || getSelection().type === 'Range';
}

function showNewer() {
  if (live.text !== null && !live.isPaused && !document.hidden && !isBusy()) {
    const text = live.text, began = performance.now();
    live.text = null;
    renew(JSON.parse(text));
    live.notBefore = Math.max(live.notBefore, performance.now() + DRAWING * (performance.now() - began));
    ask();
  }
  tellLive();
}

/** Shows other data; what was chosen, and where the focus is, stays. */
function renew(newer) {
  const choices = namedChoices(), focus = namedFocus();
  globalThis.recorded = newer;
  for (const compute of derivations) compute();
  Object.assign(state, choices(), { window: null });
  Object.assign(state, changesOfWindow(state.time));
  live.isRenewing = true;
  for (const { render } of watchers) render();
  live.isRenewing = false;
  focus();
  if (graph.pointer) {
    graph.pointed = null;
    point(graph.pointer);
  }
}

/** By what a function, or a call, is the same one in newer data. */
function functionName(number) {
  const [name, , module] = tree.functions[number];
  return JSON.stringify([name, tree.modules[module]]);
}

function callName(call) {
  const [number, line] = tree.calls[call];
  return `${functionName(number)}:${line}`;
}

/** Numbers by name. */
function numbersOf(all, name) {
  return new Map(all.map((_, number) => [name(number), number]));
}

/** The keys of a path in other data, as far as these have it. Ask before the data change, call after. */
function namedPath(path) {
  const isOfCalls = state.lines, names = path.map(isOfCalls ? callName : functionName);
  return () => {
    if (names.length === 0) return [];
    const known = isOfCalls ? numbersOf(tree.calls, callName) : numbersOf(tree.functions, functionName);
    const keys = names.map((name) => known.get(name)), end = keys.indexOf(undefined);
    return end < 0 ? keys : keys.slice(0, end);
  };
}

function namedCall(call) {
  const name = call === null ? null : callName(call);
  return () => (name === null ? null : numbersOf(tree.calls, callName).get(name) ?? null);
}

/** Choices that are numbers in the data. */
function namedChoices() {
  const thread = data.threads[state.thread], path = namedPath(state.path), open = namedCall(state.open);
  return () => ({ thread: data.threads.indexOf(thread), path: path(), open: open() });
}

/** Where the focus is, and the cursor in the graph. */
function namedFocus() {
  const focused = document.activeElement, parent = focused.closest('[id]');
  const among = () => [...(parent?.querySelectorAll('button, [tabindex]') || [])];
  const at = among().indexOf(focused), line = focused.closest('tr[data-call]');
  const call = namedCall(line ? Number(line.dataset.call) : null);
  const cursor = graph.cursor ? namedPath(pathOf(graph.cursor.frame)) : null;
  return () => {
    if (cursor) graph.cursor = rectangleOf(graph.sorted.find(cursor()));
    if (cursor) paintGraph();
    if (focused.isConnected || at < 0) return;
    const button = line ? byId('sites').querySelector(`[data-call="${call()}"] button`) : among()[at];
    button?.focus({ preventScroll: true });
  };
}

/** Says whether these are the latest numbers, and if not, why. */
function tellLive() {
  const [text, kind, why] = liveState();
  byId('live-state').textContent = text;
  byId('live-state').className = `badge ${kind}`;
  byId('live-state').title = why;
  const pause = byId('live-pause');
  pause.textContent = live.isPaused ? 'Resume' : 'Pause';
  pause.hidden = live.isOver && !live.isPaused && live.text === null;
}

/** In a few words, how good that is, and in a sentence. */
function liveState() {
  if (live.isPaused) return [live.text !== null ? 'paused; there is more' : 'paused', '', 'Resume shows newer numbers'];
  if (live.isOver) {
    return data.live.is_over ? ['ended', '', 'the session is over']
      : ['no longer followed', 'bad', 'heapattach has ended, the session has not: these numbers stay'];
  }
  if (live.isAway) return ['no answer; trying again', 'bad', 'heapattach does not answer'];
  if (live.quiet === null) return ['live', 'good', 'newer numbers come as they are recorded'];
  const time = duration(1000 * live.quiet.seconds);
  return live.quiet.has_writer === false
    ? ['breaks off', 'bad', `nothing was recorded for ${time}, and no process has the recording open`]
    : [`live; nothing new for ${time}`, 'good', 'nothing was recorded since then'];
}
