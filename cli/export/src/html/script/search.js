// Looking for functions, files and modules: what matches is marked, and what it holds is told.

const search = { isOn: false };

derive(() => {
  search.calls = new Uint8Array(tree.calls.length);
  search.rows = new Uint8Array(rows.length);
});

/** A text anywhere, or a regular expression between slashes. `null`: one that is none. */
function matcher(query) {
  const between = /^\/(.+)\/$/.exec(query);
  if (between) {
    try {
      const expression = new RegExp(between[1], 'i');
      return (text) => expression.test(text);
    } catch { return null; }
  }
  const wanted = query.toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}

function find() {
  const query = state.query.trim(), matches = matcher(query);
  search.isOn = query !== '' && matches !== null;
  search.isWrong = matches === null;
  search.calls.fill(0);
  search.rows.fill(0);
  if (!search.isOn) return;
  const functions = tree.functions.map(([name, file, module], number) => (
    matches(name) || matches(shorts.get(number) || '') || matches(file) || matches(base(tree.modules[module])) ? 1 : 0));
  tree.calls.forEach(([number], call) => { search.calls[call] = functions[number]; });
  for (let row = 0; row < rows.length; row++) {
    const end = stacks.starts[row + 1] - (state.allocators ? 0 : rows.cause[row]);
    for (let at = stacks.starts[row]; at < end && !search.rows[row]; at++) {
      const call = stacks.calls[at];
      if (!isLeftOut(row, call)) search.rows[row] = search.calls[call];
    }
  }
}

function showSearch() {
  const input = byId('search'), clear = byId('search-clear');
  let timer = 0;
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => update({ query: input.value }), rows.length > 20_000 ? 200 : 0);
  });
  input.addEventListener('keydown', (event) => { if (event.key === 'Escape') update({ query: '' }); });
  clear.addEventListener('click', () => { update({ query: '' }); input.focus(); });
  watch(['query', 'allocators', 'interpreters'], find);
  watch(['query', 'allocators', 'interpreters', 'metric', 'unit', 'thread', 'window'], tellMatched);
}

function tellMatched() {
  const input = byId('search'), told = byId('matched');
  if (input.value.trim() !== state.query.trim()) input.value = state.query;
  byId('search-clear').hidden = state.query === '';
  input.setAttribute('aria-invalid', String(search.isWrong));
  told.textContent = search.isWrong ? 'not a valid regular expression' : '';
  if (!search.isOn) return;
  const shown = Array.from(rows.node.keys()).filter(isShown);
  const list = shown.filter((row) => search.rows[row]), by = unit();
  const { now, change } = amountOf(list, state.metric, by);
  const whole = amountOf(shown, state.metric, by).now;
  const parts = [`matched ${amountText(now, by)}`];
  if (whole.value > 0) parts.push(percent(now.value, whole.value));
  if (isDiff) parts.push(changeText(change, by));
  parts.push(stacksText(list));
  told.textContent = parts.join(' \u00b7 ');
}

