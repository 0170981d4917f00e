// What was found: the verdict on the whole session, as every report has it, and by the measure chosen what
// allocated most, or what changed most.

function showVerdict() {
  watch([], drawVerdict);
}

function drawVerdict() {
  const parent = byId('verdict'), { verdict } = data;
  if (verdict === null) return;
  const isOpen = byId('verdict-rest')?.hidden === false;
  const more = make('div', { id: 'verdict-rest', hidden: !isOpen }, verdict.rest === '' ? '' : make('p', {}, verdict.rest));
  const next = verdict.next.filter(({ command }) => command !== '').map(({ command, why }) => (
    make('p.next', {}, 'Next: ', make('code', {}, command), `\u2002# ${why}`)));
  const open = make('button', { 'aria-expanded': String(isOpen), 'aria-controls': 'verdict-rest', onclick: () => {
    more.hidden = !more.hidden;
    open.setAttribute('aria-expanded', String(!more.hidden));
    open.textContent = more.hidden ? 'More' : 'Less';
  } }, isOpen ? 'Less' : 'More');
  parent.replaceChildren(make('p.first', {}, make('strong', {}, verdict.first), ' ', verdict.rest === '' ? '' : open), more, ...next);
}

function showHeadline() {
  watch(['metric', 'unit', 'thread', 'window', 'full'], () => {
    const column = { metric: state.metric, part: isDiff ? 'change' : 'now' }, by = unit();
    const known = sites.map((site) => {
      site.shown = site.rows.filter(isShown);
      const estimate = cellOf(site, column);
      return { call: site.call, estimate, size: Math.abs(estimate.value) };
    });
    const all = known.reduce((sum, { size }) => sum + size, 0), text = byId('headline');
    text.replaceChildren();
    if (all === 0) {
      text.append(`Nothing ${isDiff ? 'changed' : 'was found'} by this measure.`);
      return;
    }
    const { call, estimate, size } = known.reduce((most, each) => (each.size > most.size ? each : most));
    const where = place(call) === '' ? '' : ` (${place(call)})`, write = isDiff ? signed : quantity;
    text.append(make('strong', { title: fullIfShort(call) }, shownName(call)), `${where} ${isDiff ? 'changed most' : 'is the largest'}: `,
      make('strong', {}, `${write(estimate.value, by)}${by === 1 ? ' blocks' : ''}`),
      `, ${percent(size, all)} of ${isDiff ? 'all change of ' : ''}${METRICS[state.metric].is}`,
      state.window ? ' in the window' : '',
      `${error(estimate, by, write)}.`);
    if (isDiff && isNoise(estimate)) text.append(' This may be chance.');
  });
}

