// Who asked: a line for each place in the program that caused allocations.

const FIRST = 25, MORE = 200;

/** Narrow windows show one column of numbers; `style.css` has the same width. */
const isNarrow = matchMedia('(max-width: 860px)');

const table = { shown: FIRST };

let sites;

derive(() => { sites = rowsByCause(); });

/** Rows by the call that caused them. */
function rowsByCause() {
  const known = new Map();
  for (let row = 0; row < rows.length; row++) {
    const call = causeOf(row);
    if (!known.has(call)) known.set(call, { call, rows: [] });
    known.get(call).rows.push(row);
  }
  return [...known.values()];
}

/** What can be sorted by: of one metric before and now, or all metrics. */
function columnsShown() {
  if (isDiff) {
    return [['change', 'Change'], ['now', 'Now'], ['before', 'Before']]
      .map(([part, name]) => ({ id: part, name, metric: state.metric, part }));
  }
  return METRICS.map(({ name }, metric) => ({ id: String(metric), name, metric, part: 'now' }))
    .filter(({ metric }) => isKnown(metric) && (!METRICS[metric].pages || hasPages));
}

function cellOf(site, column) {
  return amountOf(site.shown, column.metric, unitOf(column.metric))[column.part];
}

function showTable() {
  watch(['metric', 'thread', 'query', 'unit', 'window', 'interpreters', 'allocators'], () => {
    if (!live.isRenewing) table.shown = FIRST;
    drawTable();
  });
  watch(['sort', 'ascending', 'open', 'full'], drawTable);
  isNarrow.addEventListener('change', drawTable);
  byId('more').addEventListener('click', () => { table.shown += MORE; drawTable(); });
}

/** The column that places are sorted by: that of the measure, if the reader chose none that is there. */
function sortedBy(columns) {
  const isThere = state.sort === 'site' || columns.some(({ id }) => id === state.sort);
  return isThere ? state.sort : isDiff ? 'change' : String(state.metric);
}

function sortBy(id) {
  const isSame = sortedBy(columnsShown()) === id;
  update({ sort: id, ascending: isSame ? !state.ascending : id === 'site' });
}

/** Shows the stack of a place, or of none; the focus stays where it is. */
function openSite(call, focused) {
  update({ open: call });
  byId('sites').querySelector(`[data-call="${focused}"] button`)?.focus();
}

function sortedSites(columns) {
  const list = [];
  for (const site of sites) {
    site.shown = site.rows.filter((row) => isShown(row) && (!search.isOn || search.rows[row]));
    if (site.shown.length > 0) list.push(site);
  }
  const by = sortedBy(columns), column = columns.find(({ id }) => id === by);
  const name = (site) => functionOf(site.call)[0];
  // What changed most comes first, in whichever direction.
  if (windowed.sums) {
    const isThere = (site) => site.shown.some((row) => windowed.sums[1][row * stride + 1] > 0);
    list.splice(0, list.length, ...list.filter(isThere));
  }
  for (const site of list) site.weight = column ? Math.abs(cellOf(site, column).value) : 0;
  list.sort((a, b) => b.weight - a.weight || (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : 0));
  // By name the order of the alphabet is the ascending one.
  return state.ascending === (by !== 'site') ? list.reverse() : list;
}

function drawTable() {
  const columns = columnsShown(), list = sortedSites(columns);
  const by = sortedBy(columns);
  byId('sites-head').replaceChildren(make('tr', {}, header('site', 'Allocating function', by),
    ...columns.map(({ id, name }) => header(id, name, by))));
  const whole = columns.map((column) => sum(list, column));
  const lines = [];
  for (const site of list.slice(0, table.shown)) {
    lines.push(siteRow(site, columns, whole));
    if (state.open === site.call) lines.push(openRow(site, isNarrow.matches ? 2 : columns.length + 1));
  }
  byId('sites').replaceChildren(...lines);
  const rest = list.length - table.shown;
  byId('more').hidden = rest <= 0;
  byId('more').textContent = `Show ${grouped(Math.min(rest, MORE))} more of ${grouped(rest)}`;
  byId('sites-number').textContent = `${grouped(list.length)} ${list.length === 1 ? 'place' : 'places'}`
    + (search.isOn ? ' whose stacks match' : '');
}

function sum(list, column) {
  const by = unitOf(column.metric);
  let all = 0;
  const side = column.part === 'before' ? 1 : 0;
  for (const site of list) for (const row of site.shown) all += rowValue(row, side, column.metric, by);
  return all;
}

function header(id, name, by) {
  const isSorted = by === id;
  const order = isSorted ? (state.ascending ? 'ascending' : 'descending') : 'none';
  const arrow = { none: '', ascending: '\u2191', descending: '\u2193' }[order];
  const sort = () => {
    sortBy(id);
    byId('sites-head').querySelector(`[data-column="${id}"] button`).focus();
  };
  return make('th', {
    scope: 'col', 'aria-sort': order, 'data-column': id, class: isChosen(id) ? 'chosen' : null,
  }, make('button', { onclick: sort }, name, make('span.arrow', { 'aria-hidden': 'true' }, arrow)));
}

/** That column. */
function isChosen(id) {
  return id === (isDiff ? 'change' : String(state.metric));
}

function siteRow(site, columns, whole) {
  const isOpen = state.open === site.call;
  const name = make('button', {
    'aria-expanded': String(isOpen), onclick: () => openSite(isOpen ? null : site.call, site.call),
    title: fullIfShort(site.call),
  }, shownName(site.call));
  return make('tr', { 'data-call': site.call },
    make('th', { scope: 'row' }, name, make('span.where', {}, whereabouts(site.call))),
    ...columns.map((column, i) => cell(site, column, whole[i])));
}

function cell(site, column, whole) {
  const by = unitOf(column.metric), estimate = cellOf(site, column), isChange = column.part === 'change';
  const write = isChange ? signed : quantity, isNone = estimate.value === 0 && estimate.high === 0;
  const box = make('td', { class: isChosen(column.id) ? 'chosen' : null, 'data-value': estimate.value },
    make('span.number', {}, isNone ? '\u2013' : write(estimate.value, by)));
  if (isChange && !isNone) box.classList.add(isNoise(estimate) ? 'noise' : estimate.value > 0 ? 'grew' : 'shrank');
  if (!isExact(estimate)) {
    const title = '95 % CI';
    box.append(make('span.error', { title }, range(estimate, by, write)));
  }
  if (isChosen(column.id) && !isChange && whole > 0 && !isNone) {
    const bar = make('i.bar', { 'aria-hidden': 'true' });
    bar.style.width = `${Math.min(100, 100 * estimate.value / whole)}%`;
    box.prepend(make('span.share', {}, percent(estimate.value, whole)));
    box.append(bar);
  }
  if (column.metric === FREED && !isChosen(column.id) && !isChange) {
    const all = cellOf(site, { metric: ALLOCATED, part: column.part }).value;
    if (all > 0) box.prepend(make('span.share', {}, isNone ? 'never' : percent(estimate.value, all)));
  }
  return box;
}

/** The heaviest of a site's stacks, and the way to it in the graph. */
function openRow(site, span) {
  const value = (row, side) => rowValue(row, side, state.metric, unit());
  const weight = (row) => Math.abs(value(row, 0) - (isDiff ? value(row, 1) : 0));
  const row = site.shown.reduce((most, each) => (weight(each) > weight(most) ? each : most));
  const { starts, calls } = stacks, lines = [];
  for (let at = starts[row + 1] - 1; at >= starts[row]; at--) {
    const isAllocator = starts[row + 1] - 1 - at < rows.cause[row];
    lines.push(make('li', { class: isAllocator ? 'dim' : null, title: fullIfShort(calls[at]) }, shownName(calls[at]),
      make('span.where', {}, whereabouts(calls[at]))));
  }
  const show = make('button.plain', { onclick: () => {
    update({ direction: 'up', allocators: false, path: [state.lines ? site.call : tree.calls[site.call][0]] });
    byId('flame-section').scrollIntoView();
    byId('flame').focus({ preventScroll: true });
  } }, 'Show its callers in the graph');
  const title = `The largest of ${stacksText(site.shown)}, innermost call first`;
  const box = make('div.stack', {}, make('h4', {}, title), make('ol', {}, ...lines), sourceOf(site.call), show);
  return make('tr.open', {}, make('td', { colspan: span }, box));
}

