// How large blocks are and how long they live, by powers of two.

function bucketName(bucket, name) {
  const low = bucket === 0 ? 0 : 2 ** (bucket - 1), high = bucket === 0 ? 0 : 2 ** bucket - 1;
  return low === high ? name(low) : `${name(low)} \u2013 ${name(high + 1)}`;
}

function showHistogram(id, name, title, perBlock) {
  const all = sides.map((side) => side[title]);
  const last = Math.max(...all.map((buckets) => buckets.findLastIndex(([n]) => n > 0))) + 1;
  const first = Math.min(...all.map((buckets) => buckets.findIndex(([n]) => n > 0)).filter((i) => i >= 0));
  const most = Math.max(...all.flat().map(([n]) => n), 0), parent = byId(id);
  if (!(most > 0)) {
    parent.append(make('p.dim', {}, `No ${perBlock} were recorded.`));
    return;
  }
  const sum = all[0].reduce((whole, [n]) => whole + n, 0), lines = [];
  for (let bucket = first; bucket < last; bucket++) {
    const bars = all.map((buckets, side) => {
      const bar = make(`i.bar${side === 1 ? '.before' : ''}`);
      bar.style.width = `${100 * Math.max(0, buckets[bucket]?.[0] || 0) / most}%`;
      return bar;
    });
    const [value, low, high] = all[0][bucket] || [0, 0, 0], estimate = { value, low, high };
    const number = make('td', {}, value > 0 ? count(value) : '\u2013');
    const title = 'the truth lies in here in 95 % of all cases or more';
    if (high > low) number.append(make('span.error', { title }, range(estimate, 1)));
    lines.push(make('tr', {}, make('th', { scope: 'row' }, bucketName(bucket, name)),
      make('td.bars', { 'aria-hidden': 'true' }, ...bars),
      number, make('td.dim', {}, value > 0 ? percent(value, sum) : '')));
  }
  parent.append(make('table.histogram', {}, make('tbody', {}, ...lines)));
}

function lifetime(us) {
  return us < 1000 ? `${grouped(us)} \u00b5s` : duration(us / 1000);
}

