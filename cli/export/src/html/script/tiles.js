// The sums of everything, which are also the choice of what the rest of the page shows.

function shownTotal(side, metric, by) {
  if (state.thread < 0 && !windowed.sums) return sideTotal(side, metric, by);
  const total = new Total();
  for (let row = 0; row < rows.length; row++) if (isShown(row)) total.addRow(row, side, metric);
  return total.estimate(by);
}

function showTiles() {
  const parent = byId('tiles');
  METRICS.forEach((metric, index) => {
    const value = make('span.value'), detail = make('span.detail');
    const tile = make('button.tile', {
      'data-metric': index, title: metric.what, onclick: () => update({ metric: index, sort: null, ascending: false }),
    }, make('span.name', {}, metric.name), value, make('span.hidden', {}, metric.what), detail);
    parent.append(tile);
    watch(['unit', 'thread', 'metric', 'window'], () => {
      tile.hidden = Boolean(metric.pages) && !hasPages;
      if (tile.hidden) return;
      const by = unitOf(index), now = shownTotal(0, index, by);
      tile.disabled = !isKnown(index);
      value.textContent = tile.disabled ? '\u2013' : quantity(now.value, by);
      detail.textContent = tile.disabled ? 'not known of a window' : tileDetail(now, index, by);
      tile.setAttribute('aria-pressed', String(state.metric === index));
    });
  });
}

function tileDetail(now, metric, by) {
  if (isDiff) {
    const change = difference(now, shownTotal(1, metric, by));
    return `${signed(change.value, by)}${isNoise(change) ? ', within error' : ''}`;
  }
  if (!isExact(now)) return range(now, by);
  if (METRICS[metric].pages) return 'every call known';
  const other = shownTotal(0, metric, 1 - by);
  return by === 0 ? `${count(other.value)} blocks` : bytes(other.value);
}

/** What is counted, and of whom. */
function showFilters(parent) {
  const press = choice(parent, 'Count', [[0, 'Bytes'], [1, 'Blocks']], (value) => update({ unit: value }));
  watch(['unit'], () => press(state.unit));
  const select = make('select', { 'aria-label': 'Thread', id: 'thread',
    onchange: () => update({ thread: Number(select.value), path: [] }) });
  parent.append(select);
  watch([], () => {
    const options = data.threads.map((name, i) => [name, i]).sort(([a], [b]) => (a < b ? -1 : 1));
    // A list that is open stays open.
    if (select.dataset.of === String(data.threads)) return;
    select.dataset.of = data.threads;
    select.hidden = options.length < 2;
    select.replaceChildren(make('option', { value: -1 }, 'All threads'),
      ...options.map(([name, i]) => make('option', { value: i }, name)));
  });
  watch(['thread'], () => { select.value = String(state.thread); });
}

