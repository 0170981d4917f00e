// What happened in a window of time, by stack. The page knows of each block in which span of the time
// it was allocated and what became of it; all that a window says of its own is sums of these.

let spans, hasWindows, cells;

/** The numbers of each row's sums in the window by metric, if there is one. */
const windowed = { sums: null };

derive(() => {
  spans = data.windows.bounds;
  hasWindows = spans.length > 1;
  cells = cellsOfWindows();
  windowed.sums = null;
});

const IN_USE = 0, FREED_IN = 2;

/** Cells: row, span of birth, fate, number of a sum. From `FREED_IN` on a fate is a span, doubled, and
    one more if it was very soon. */
function cellsOfWindows() {
  const flat = data.windows.cells, number = flat.length / 4;
  const [row, birth, fate, sum] = [0, 1, 2, 3].map(() => new Int32Array(number));
  for (let i = 0, last = 0; i < number; i++) {
    last += flat[4 * i];
    row[i] = last;
    [birth[i], fate[i], sum[i]] = [flat[4 * i + 1], flat[4 * i + 2], flat[4 * i + 3]];
  }
  return { number, row, birth, fate, sum };
}

function inWindow([from, to]) {
  const none = () => new Float64Array(rows.length * stride);
  const [live, allocated, freed, temporary] = [none(), none(), none(), none()];
  for (let i = 0; i < cells.number; i++) {
    if (cells.birth[i] < from || cells.birth[i] >= to) continue;
    const at = cells.row[i] * stride, of = cells.sum[i] * stride, fate = cells.fate[i];
    const isFreed = fate >= FREED_IN && (fate - FREED_IN) >> 1 < to;
    const all = [allocated];
    if (isFreed) all.push(freed);
    if (isFreed && (fate - FREED_IN) % 2 === 1) all.push(temporary);
    if (!isFreed && (fate === IN_USE || fate >= FREED_IN)) all.push(live);
    for (const sum of all) for (let n = 0; n < stride; n++) sum[at + n] += sums[of + n];
  }
  // In the order of the metrics; the others are not known.
  return [live, allocated, freed, null, temporary, null];
}

function isKnown(metric) {
  return windowed.sums === null || windowed.sums[metric] !== null;
}

/** What changes with a window of time, or with none: the sums, and the measure if it is not known of one. */
function changesOfWindow(time, metric = state.metric) {
  const window = time !== null && hasWindows ? spansOf(time) : null;
  if (String(window) !== String(state.window)) windowed.sums = window === null ? null : inWindow(window);
  return { time, window, metric: isKnown(metric) ? metric : 0 };
}

/** Of the session from one moment to another in milliseconds, or of all of it: `null`. */
function setTime(time) {
  update(changesOfWindow(time));
}

/** The spans that the reader means by a part of the time: whole ones, and at least one. */
function spansOf([from, to]) {
  const away = (i, at) => Math.abs(spans[i] - at);
  const near = (at) => spans.reduce((best, _, i) => (away(i, at) < away(best, at) ? i : best), 0);
  const first = Math.min(near(from), spans.length - 2);
  return [first, Math.max(near(to), first + 1)];
}

/** As it is typed. */
function optionsOf([from, to]) {
  const since = from > 0 ? ` --since ${spans[from]}ms` : '';
  return since + (to < spans.length - 1 ? ` --until ${spans[to]}ms` : '');
}

/** Says above the graph and the table what they are of. */
function showWindowed() {
  watch(['window'], () => {
    const ends = (state.window || []).map((at) => duration(spans[at]));
    const text = state.window === null ? '' : `allocated ${ends.join(' \u2013 ')}`;
    for (const badge of document.querySelectorAll('.windowed')) {
      badge.textContent = text;
      badge.hidden = text === '';
    }
    for (const note of document.querySelectorAll('.whole')) note.hidden = text === '';
  });
}

function windowNote() {
  const how = 'Drag over the picture, or move the two handles, to choose a window.';
  const why = data.windows.why_none;
  const because = why === '' ? '.' : `: ${why}.`;
  if (!hasWindows) return `${how} Sums, stacks and places stay those of the whole session${because}`;
  const step = duration((spans.at(-1) - spans[0]) / (spans.length - 1));
  return `${how} Sums, stacks and places are then of the blocks allocated in it, and of what became of them `
    + `by its end. It begins and ends at one of ${spans.length} moments, ${step} apart`
    + (spans[0] > 0 ? `, and not before ${duration(spans[0])}.` : '.');
}

