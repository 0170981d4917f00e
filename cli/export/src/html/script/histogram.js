// How large blocks are and how long they live, by powers of two.

function bucketName(bucket, name) {
  const low = bucket === 0 ? 0 : 2 ** (bucket - 1), high = bucket === 0 ? 0 : 2 ** bucket - 1;
  return low === high ? name(low) : `${name(low)} \u2013 ${name(high + 1)}`;
}

function showHistograms() {
  watch([], () => {
    drawHistogram('sizes', bytes, 'sizes', 'sizes');
    drawHistogram('lifetimes', lifetime, 'lifetimes', 'lifetimes');
  });
}

function drawHistogram(id, name, title, perBlock) {
  const all = sides.map((side) => side[title]);
  const last = Math.max(...all.map((buckets) => buckets.findLastIndex(([n]) => n > 0))) + 1;
  const first = Math.min(...all.map((buckets) => buckets.findIndex(([n]) => n > 0)).filter((i) => i >= 0));
  const most = Math.max(...all.flat().map(([n]) => n), 0), parent = byId(id);
  if (!(most > 0)) {
    parent.replaceChildren(make('p.dim', {}, `No ${perBlock} were recorded.`));
    return;
  }
  const sum = all[0].reduce((whole, [n]) => whole + n, 0), lines = [];
  // What came and went between two looks at the rings lived shorter than anything that was measured.
  const next = perBlock !== 'lifetimes' || first > 0 ? 0
    : Math.min(...all.map((buckets) => buckets.findIndex(([n], i) => i > 0 && n > 0)).filter((i) => i > 0));
  for (let bucket = first; bucket < last; bucket++) {
    if (bucket > 0 && bucket < next) continue;
    const bars = all.map((buckets, side) => {
      const bar = make(`i.bar${side === 1 ? '.before' : ''}`);
      bar.style.width = `${100 * Math.max(0, buckets[bucket]?.[0] || 0) / most}%`;
      return bar;
    });
    const [value, low, high] = all[0][bucket] || [0, 0, 0], estimate = { value, low, high };
    const number = make('td', {}, value > 0 ? count(value) : '\u2013');
    const title = '95 % CI or wider';
    const interval = make('td.error', { title }, high > low ? range(estimate, 1) : '');
    lines.push(make('tr', {}, make('th', { scope: 'row' },
      bucket === 0 && isFinite(next) && next > 0 ? `< ${name(2 ** (next - 1))}` : bucketName(bucket, name)),
      make('td.bars', { 'aria-hidden': 'true' }, ...bars),
      number, interval, make('td.dim', {}, value > 0 ? percent(value, sum) : '')));
  }
  const heads = [perBlock === 'sizes' ? 'Size' : 'Lifetime', '', 'Blocks', '95 % CI', 'Part']
    .map((text) => (text === '' ? make('td', {}) : make('th', { scope: 'col' }, text)));
  parent.replaceChildren(make('table.histogram', { 'aria-labelledby': `${id}-title` },
    make('thead.hidden', {}, make('tr', {}, ...heads)), make('tbody', {}, ...lines)));
}

function lifetime(us) {
  return us < 1000 ? `${grouped(us)} \u00b5s` : duration(us / 1000);
}

