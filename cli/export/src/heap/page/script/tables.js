// Tables: rows of numbers and a name, by any of their columns.

/** A number of a column: 'b' bytes, 'n' a number, 't' text. */
function cellText(kind, value) {
  if (value === null) return '';
  if (kind === 'b') return bytes(value);
  return kind === 'n' ? count(value) : value;
}

function compareCells(a, b) {
  if (typeof a === 'number' || typeof b === 'number') return (b ?? -1) - (a ?? -1);
  return String(a).localeCompare(String(b));
}

function showTableOf({ title, columns, kinds, rows, note }) {
  const body = make('tbody');
  const heads = columns.map((name, column) => make('button', {
    type: 'button', 'aria-pressed': 'false', onclick: () => order(column),
  }, name));
  function order(column) {
    heads.forEach((head, i) => head.setAttribute('aria-pressed', String(i === column)));
    const sorted = [...rows].sort((a, b) => compareCells(a[column], b[column]));
    body.replaceChildren(...sorted.map((row) => make('tr', {},
      ...row.map((value, i) => make('td', {}, cellText(kinds[i], value))))));
  }
  const head = make('tr', {}, ...heads.map((button) => make('th', { scope: 'col' }, button)));
  const table = make('table.list', { 'aria-label': title }, make('thead', {}, head), body);
  order(0);
  byId('tables').append(make('section.panel', { 'aria-label': title },
    make('div.head', {}, make('h2', {}, title), make('span.dim', {}, note || '')),
    make('div.scroll', { tabindex: 0, role: 'region', 'aria-label': `${title}, rows` }, table)));
}
