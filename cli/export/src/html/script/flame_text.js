// The picture as text: its widest frames in a table, each below what called it, for those who cannot see
// the picture, and to copy.

const TOLD = 60;

function showFlameText() {
  const parent = byId('flame-text');
  const render = () => { if (parent.open) drawFlameText(parent); };
  parent.addEventListener('toggle', render);
  watch(GRAPH_CHOICES, render);
}

/** The widest, in the order of the picture: callers before what they call. */
function widestFrames() {
  const { rectangles } = graph.picture, real = rectangles.filter((each) => !each.rest && !each.isOuter);
  const least = real.map(({ w }) => w).sort((a, b) => b - a)[TOLD - 1] || 0;
  return real.filter(({ w }) => w >= least).slice(0, TOLD);
}

function drawFlameText(parent) {
  const by = unit(), metric = METRICS[state.metric].name.toLowerCase();
  const amount = (frame) => amountOf(graph.sorted.rowsOf(frame).filter(isShown), state.metric, by);
  const whole = amount(graph.sorted.root()).now.value, frames = widestFrames();
  const lines = frames.map(({ frame }) => {
    const depth = frame.depth - graph.zoomed.depth, { now, change } = amount(frame);
    const name = make('button', { onclick: () => zoom(frame) },
      make('span.hidden', {}, `level ${depth}: `), nameOf(graph.sorted, frame));
    const cell = make('th', { scope: 'row' }, name);
    // In a narrow window the names keep their room.
    cell.style.paddingLeft = `min(${Math.min(depth, 24) * 0.9}rem, 20vw)`;
    return make('tr', {}, cell, make('td', {}, quantity(now.value, by)),
      isDiff ? make('td', {}, signed(change.value, by)) : null, make('td', {}, percent(now.value, whole)));
  });
  const caption = `The ${count(lines.length)} widest frames, each below what called it; sums of ${metric} with all that is called`;
  const heads = ['Function', METRICS[state.metric].name, ...(isDiff ? ['Change'] : []), 'Part of all'];
  const hadFocus = parent.querySelector('table')?.contains(document.activeElement);
  parent.replaceChildren(parent.firstElementChild, make('table.told', {}, make('caption.dim', {}, caption),
    make('thead', {}, make('tr', {}, ...heads.map((text) => make('th', { scope: 'col' }, text)))),
    make('tbody', {}, ...lines)));
  // The button that zoomed is no more.
  if (hadFocus) parent.querySelector('tbody button')?.focus();
}

