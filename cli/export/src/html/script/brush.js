// A window of time, chosen by dragging over the timeline or with its two handles.

const brush = {};

/** With more rows the page changes only when a window is let go. */
const MANY = 5000;

function drawBrush(parent, svg) {
  const height = timeline.bottom - MARGIN.top + 10, top = MARGIN.top - 5;
  brush.shade = makeSvg('rect.window', { y: top, height, width: 0 });
  brush.cross = makeSvg('line.cross', { y1: top, y2: top + height, visibility: 'hidden' });
  brush.handles = [0, 1].map((end) => makeSvg('g.handle', {
    role: 'slider', tabindex: 0, 'aria-label': end === 0 ? 'Window from' : 'Window to',
    'aria-valuemin': 0, 'aria-valuemax': timeline.last, onkeydown: (event) => nudge(event, end),
  }, makeSvg('rect', { y: MARGIN.top + PANELS[0].height / 2 - 13, x: -4, width: 8, height: 26, rx: 4 })));
  const area = makeSvg('rect.catch', { x: MARGIN.left, y: top, width: timeline.inner, height });
  svg.append(brush.shade, brush.cross, area, ...brush.handles);
  area.addEventListener('pointerdown', (event) => drag(event, area, null));
  brush.handles.forEach((handle, end) => {
    handle.addEventListener('pointerdown', (event) => drag(event, handle, end));
  });
  area.addEventListener('pointermove', (event) => cross(event, svg));
  area.addEventListener('pointerleave', () => {
    brush.cross.setAttribute('visibility', 'hidden');
    byId('moment').textContent = '';
  });
  brush.left = () => svg.getBoundingClientRect().left;
  showWindow();
}

/** Drags a new window open, or one of its ends. */
function drag(event, on, end) {
  if (event.button !== 0) return;
  event.preventDefault();
  const from = timeline.at(event.clientX - brush.left());
  const fixed = end === null ? from : chosen()[1 - end];
  on.setPointerCapture(event.pointerId);
  brush.dragged = end === null ? 0 : Infinity;
  on.onpointermove = (moved) => {
    brush.dragged = end === null ? moved.clientX - event.clientX : Infinity;
    choose(fixed, timeline.at(moved.clientX - brush.left()));
  };
  on.onlostpointercapture = () => {
    on.onpointermove = null;
    // A click is no window.
    if (Math.abs(brush.dragged) < 4) clearWindow();
    else applyWindow();
  };
}

/** What the page is of: while a window moves that may cost too much. */
function applyWindow() {
  setTime(timeline.window);
  showWindow();
}

function nudge(event, end) {
  const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
  if (event.key === 'Escape') clearWindow();
  if (!by) return;
  event.preventDefault();
  const ends = chosen();
  if (hasWindows) {
    const at = spansOf(ends), limit = end === 0 ? [0, at[1] - 1] : [at[0] + 1, spans.length - 1];
    at[end] = Math.max(limit[0], Math.min(limit[1], at[end] + by));
    choose(spans[at[0]], spans[at[1]]);
  } else {
    ends[end] += by * timeline.last / 100;
    const limit = end === 0 ? [0, ends[1]] : [ends[0], timeline.last];
    ends[end] = Math.max(limit[0], Math.min(limit[1], ends[end]));
    choose(...ends);
  }
  applyWindow();
}

function chosen() {
  return timeline.window ? [...timeline.window] : [0, timeline.last];
}

function choose(a, b) {
  timeline.window = [Math.min(a, b), Math.max(a, b)];
  if (hasWindows) timeline.window = spansOf(timeline.window).map((at) => spans[at]);
  if (rows.length < MANY) applyWindow();
  else showWindow();
}

function clearWindow() {
  timeline.window = null;
  applyWindow();
}

/** The moments in a window: the first and the last. */
function momentsIn([from, to]) {
  const { at_ms } = timeline.moments;
  const first = at_ms.findIndex((at) => at >= from);
  const last = at_ms.findLastIndex((at) => at <= to);
  return { first, last, number: first < 0 || last < first ? 0 : last - first + 1 };
}

function showWindow() {
  const [from, to] = chosen(), [x1, x2] = [timeline.x(from), timeline.x(to)];
  brush.shade.setAttribute('x', x1);
  brush.shade.setAttribute('width', timeline.window ? x2 - x1 : 0);
  [x1, x2].forEach((x, end) => {
    brush.handles[end].setAttribute('transform', `translate(${x} 0)`);
    brush.handles[end].setAttribute('aria-valuenow', Math.round([from, to][end]));
    brush.handles[end].setAttribute('aria-valuetext', duration([from, to][end]));
  });
  byId('window-clear').hidden = !timeline.window;
  const same = byId('window-same');
  same.hidden = !timeline.window || !hasWindows;
  if (!same.hidden) same.textContent = `The same in a terminal: heapattach report FILE${optionsOf(spansOf(timeline.window))}`;
  byId('window-text').replaceChildren(...windowFacts(from, to));
}

function windowFacts(from, to) {
  const { first, last, number } = momentsIn([from, to]), all = timeline.moments;
  const fact = (name, text, title) => make('span.fact', { title: title || null }, make('b', {}, name), text);
  const facts = [fact(timeline.window ? 'Window' : 'Whole session',
    `${timeline.window ? `${duration(from)} \u2013 ` : ''}${duration(to)}, ${grouped(number)} moments`)];
  const inside = state.window && String(state.window) === String(spansOf([from, to]));
  const seconds = (inside ? to - from : all.at_ms[last] - all.at_ms[first]) / 1000;
  const asked = (size, blocks) => {
    facts.push(fact('allocated', `${bytes(size)} in ${count(blocks)} blocks, ${bytes(size / seconds)}/s`));
    return facts;
  };
  if (number < 2 && inside) return asked(shownTotal(0, 1, 0).value, shownTotal(0, 1, 1).value);
  if (number < 2) return [...facts, fact('', 'too short to tell what changed')];
  const change = (name) => (all[name][first] === null ? null : all[name][last] - all[name][first]);
  for (const [name, title] of [['live', 'live'], ['rss', 'RSS'], ['pss', 'PSS'],
    ['anonymous', 'anonymous'], ['mapped', 'mapped'], ['cgroup', 'control group']]) {
    const by = change(name);
    if (name === 'cgroup' && !state.group) continue;
    if (by === null || all[name][last] === null || (by === 0 && name === 'mapped')) continue;
    const live = name !== 'live' ? null : difference(heldAt(last), heldAt(first));
    facts.push(fact(title, signed(by, 0) + (live ? error(live, 0, signed) : ''),
      `from ${bytes(all[name][first])} to ${bytes(all[name][last])}`));
  }
  if (inside) return asked(shownTotal(0, 1, 0).value, shownTotal(0, 1, 1).value);
  return asked(change('allocated'), change('blocks'));
}

function heldAt(index) {
  const { live, low, high } = timeline.moments;
  return { value: live[index], low: low[index], high: high[index] };
}

/** What was known at the moment below the pointer. */
function cross(event, svg) {
  const at = timeline.at(event.clientX - svg.getBoundingClientRect().left), all = timeline.moments;
  let index = all.at_ms.findIndex((each) => each >= at);
  if (index < 0) index = all.at_ms.length - 1;
  if (index > 0 && at - all.at_ms[index - 1] < all.at_ms[index] - at) index -= 1;
  const x = timeline.x(all.at_ms[index]);
  for (const name of ['x1', 'x2']) brush.cross.setAttribute(name, x);
  brush.cross.setAttribute('visibility', 'visible');
  const parts = SERIES.filter(({ name, panel, isLimit }) => !isLimit && isPanelShown(panel) && all[name][index] !== null)
    .map(({ name, title }) => `${title} ${bytes(all[name][index])}`
      + (name === 'live' ? error(heldAt(index), 0) : ''));
  byId('moment').textContent = `${duration(all.at_ms[index])}: ${parts.join(', ')}`;
}

