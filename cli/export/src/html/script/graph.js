// The graph as the reader moves in it: pointer, keys, zoom, and what is said about a frame.

/** What the picture depends on. */
const GRAPH_CHOICES = ['direction', 'lines', 'allocators', 'interpreters', 'metric', 'unit', 'thread', 'width',
  'shape', 'path', 'window', 'full'];

const graph = { sorted: null, picture: null, cursor: null };

derive(() => {
  graph.known = new Map();
  // A frame is a range of stacks in an order that is no more.
  graph.cursor = null;
});

/** The order of stacks that the choices ask for; each is made once. */
function sortedStacks() {
  const name = [state.direction, state.lines, state.allocators, state.interpreters].join();
  if (!graph.known.has(name)) graph.known.set(name, new Stacks());
  return graph.known.get(name);
}

function rowWeights() {
  const by = unit(), value = (row, side) => rowValue(row, side, state.metric, by);
  return Float64Array.from({ length: rows.length }, (_, row) => {
    if (!isShown(row)) return 0;
    if (!isDiff || state.width === 'now') return value(row, 0);
    return state.width === 'before' ? value(row, 1) : Math.abs(value(row, 0) - value(row, 1));
  });
}

function isSame(a, b) {
  return a && b && a.depth === b.depth && a.start === b.start && a.end === b.end;
}

function showGraph() {
  const canvas = byId('flame');
  watch(GRAPH_CHOICES, drawGraph);
  watch(['query'], paintGraph);
  new ResizeObserver(() => {
    if (Math.abs(canvas.parentElement.clientWidth - graph.picture.width) > 1) drawGraph();
  }).observe(canvas.parentElement);
  canvas.addEventListener('mousemove', point);
  canvas.addEventListener('mouseleave', () => {
    byId('tip').hidden = true;
    graph.pointer = null;
  });
  canvas.addEventListener('click', (event) => {
    const hit = rectangleAt(event);
    if (hit && !hit.rest) zoom(hit.frame);
  });
  canvas.addEventListener('keydown', onKey);
  canvas.addEventListener('focus', () => moveTo(graph.cursor || rectangleOf(graph.zoomed)));
  canvas.addEventListener('blur', paintGraph);
}

function drawGraph() {
  const width = Math.max(byId('flame').parentElement.clientWidth, 200);
  graph.sorted = sortedStacks();
  graph.zoomed = graph.sorted.find(state.path);
  graph.picture = layOut(graph.sorted, graph.zoomed, rowWeights(), width);
  resize(byId('flame'), width, graph.picture.levels * LEVEL);
  graph.cursor = rectangleOf(graph.cursor?.frame);
  byId('tip').hidden = true;
  const isEmpty = graph.picture.rectangles.length === 0;
  byId('flame').hidden = isEmpty;
  byId('flame-empty').hidden = !isEmpty;
  byId('flame-cut').hidden = !graph.picture.isCut;
  showCrumbs();
  paintGraph();
}

function paintGraph() {
  if (!graph.picture) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const isDark = colour('--dark') === '1' && !graph.isPrinting;
  const hasFocus = byId('flame').matches(':focus-visible');
  paint(byId('flame').getContext('2d'), graph.picture, {
    font: '12px ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace',
    ink: isDark ? '#f1efe9' : '#1d1f21',
    rest: isDark ? '#3a3d42' : '#d9dade',
    match: isDark ? '#ff7ad1' : '#c2127e',
    cursor: hasFocus ? (isDark ? '#ffffff' : '#111111') : null,
    colour: (frame) => frameFill(frame, isDark),
    isMatch: (each) => search.isOn && !each.rest && each.frame.parent
      && search.calls[callOf(graph.sorted, each.frame)] === 1,
  });
}

function frameFill(frame, isDark) {
  if (!isDiff) {
    if (!frame.parent) return isDark ? '#34373c' : '#dfe0e3';
    const call = callOf(graph.sorted, frame);
    return isMark(call) ? markColour(isDark) : frameColour(call, isDark);
  }
  let now = 0, before = 0;
  for (const row of graph.sorted.rowsOf(frame)) {
    if (!isShown(row)) continue;
    now += rowValue(row, 0, state.metric, unit());
    before += rowValue(row, 1, state.metric, unit());
  }
  return changeColour(now, before, isDark);
}

function zoom(frame) {
  graph.cursor = { frame };
  update({ path: pathOf(frame) });
}

function rectangleOf(frame) {
  return graph.picture.rectangles.find((each) => isSame(each.frame, frame) && !each.rest) || null;
}

/** The way from everything to what is zoomed into. */
function showCrumbs() {
  const crumbs = [];
  for (let frame = graph.zoomed; frame; frame = frame.parent) {
    const target = frame;
    crumbs.unshift(make('li', {}, make('button', {
      onclick: () => zoom(target), 'aria-current': frame === graph.zoomed ? 'location' : null,
      title: frame.parent ? fullIfShort(callOf(graph.sorted, frame)) : null,
    }, frame.parent ? shownName(callOf(graph.sorted, frame)) : 'All')));
  }
  byId('crumbs').replaceChildren(...crumbs);
}

function rectangleAt(event) {
  const box = byId('flame').getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  const { rectangles, levels } = graph.picture;
  return rectangles.find((each) => {
    const top = topOf(each.level, levels);
    return y >= top && y < top + LEVEL && x >= each.x && x < each.x + each.w;
  });
}

/** What is known of a frame, line by line. */
function describe(rectangle) {
  const { frame } = rectangle, by = unit();
  const list = graph.sorted.rowsOf(frame).filter(isShown);
  const all = graph.sorted.order.filter(isShown);
  if (rectangle.rest) return [`${grouped(rectangle.rest)} frames too narrow to be shown`, 'zoom in'];
  const amount = amountOf(list, state.metric, by), whole = amountOf(all, state.metric, by);
  const lines = [nameOf(graph.sorted, frame)];
  if (frame.parent) {
    const call = callOf(graph.sorted, frame), file = functionOf(call)[1];
    lines.push(fullIfShort(call) || '');
    lines.push(state.lines ? whereabouts(call) : dotted(file, moduleOf(call)));
    if (explained(call) !== '') lines.push(explained(call));
  }
  const metric = METRICS[state.metric].name.toLowerCase();
  lines.push(`${amountText(amount.now, by)} ${metric}`
    + (whole.now.value > 0 ? `, ${percent(amount.now.value, whole.now.value)}` : ''));
  if (isDiff) lines.push(`before ${quantity(amount.before.value, by)}: ${changeText(amount.change, by)}`);
  lines.push(stacksText(list));
  return lines.filter((line) => line !== '');
}

function amountText(now, by) {
  return `${quantity(now.value, by)}${by === 1 ? ' blocks' : ''}${error(now, by)}`;
}

function changeText(change, by) {
  return signed(change.value, by) + error(change, by, signed);
}

function stacksText(list) {
  return `${grouped(list.length)} ${list.length === 1 ? 'stack' : 'stacks'}`;
}

function point(event) {
  graph.pointer = event;
  const hit = rectangleAt(event), tip = byId('tip');
  tip.hidden = !hit;
  byId('flame').style.cursor = hit && !hit.rest ? 'pointer' : 'default';
  if (!hit) return;
  if (graph.pointed !== hit) {
    const [name, ...lines] = describe(hit);
    tip.replaceChildren(make('strong', {}, name), ...lines.map((line) => make('span', {}, line)));
    graph.pointed = hit;
  }
  const room = document.documentElement.clientWidth - tip.offsetWidth - 12;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, room))}px`;
  const below = event.clientY + 18;
  const isLow = below + tip.offsetHeight > window.innerHeight;
  tip.style.top = `${isLow ? event.clientY - tip.offsetHeight - 12 : below}px`;
}

