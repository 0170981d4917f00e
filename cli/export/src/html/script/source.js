// Lines of source with what they and all that they call have, where the page was made beside the files.

let sources;

derive(() => { sources = new Map(data.sources.map((each) => [each.function, each])); });

/** Rows by line of a function: those whose stack has a call there. */
function rowsByLine(number) {
  const { starts, calls } = stacks, lines = new Map();
  for (let row = 0; row < rows.length; row++) {
    if (!isShown(row)) continue;
    const seen = new Set();
    for (let at = starts[row]; at < starts[row + 1]; at++) {
      const [of, line] = tree.calls[calls[at]];
      // A function that calls itself has the row once.
      if (of !== number || seen.has(line)) continue;
      seen.add(line);
      if (!lines.has(line)) lines.set(line, []);
      lines.get(line).push(row);
    }
  }
  return lines;
}

/** A table of its lines; an empty text if there are none. */
function sourceOf(call) {
  const number = tree.calls[call][0], excerpt = sources.get(number);
  if (excerpt === undefined) return '';
  const by = unit(), all = shownTotal(0, state.metric, by).value, ofLines = rowsByLine(number), lines = [];
  for (const [first, texts] of excerpt.pieces) {
    if (lines.length > 0) lines.push(make('tr.gap', {}, make('td', { colspan: 4 }, '\u22ef')));
    texts.forEach((text, i) => {
      const list = ofLines.get(first + i), value = list ? amountOf(list, state.metric, by).now.value : 0;
      lines.push(make(value > 0 ? 'tr.marked' : 'tr', {}, make('td', {}, value > 0 ? quantity(value, by) : ''),
        make('td', {}, value > 0 ? percent(value, all) : ''), make('th', { scope: 'row' }, String(first + i)),
        make('td', {}, make('code', {}, text))));
    });
  }
  const [, file] = functionOf(call), metric = METRICS[state.metric].name;
  const note = excerpt.is_newer ? ' The file was changed after the session began: lines may have moved.' : '';
  const heads = [metric, 'Part', 'Line', 'Source'].map((text) => make('th', { scope: 'col' }, text));
  return make('div.source', { role: 'region', 'aria-label': `Source of ${shownName(call)}`, tabindex: 0 },
    make('table', {}, make('caption.dim', {}, `${file}: with all that each line calls.${note}`),
      make('thead', {}, make('tr', {}, ...heads)), make('tbody', {}, ...lines)));
}

/** Of the function that is zoomed into. */
function showSource() {
  watch(GRAPH_CHOICES, () => {
    const { zoomed, sorted } = graph;
    byId('source').replaceChildren(...(zoomed.parent ? [sourceOf(callOf(sorted, zoomed))] : []));
  });
}

