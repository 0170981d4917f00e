// What can be measured of rows, and sums of it.

/** `pages`: bytes of pages, every one of them known, and without a number of blocks. */
const METRICS = [
  { name: 'Live', what: 'in use at the end', is: 'what is live' },
  { name: 'Allocated', what: 'since the attach', is: 'what was allocated' },
  { name: 'Freed', what: 'since the attach', is: 'what was freed' },
  { name: 'Peak', what: 'when most was in use', is: 'the peak' },
  { name: 'Temporary', what: 'freed soon', is: 'what was temporary' },
  { name: 'Mapped', what: 'pages still mapped', is: 'the pages still mapped', pages: true },
];

const ALLOCATED = 1, FREED = 2, PEAK = 3;

let stride, sums, columns, hasPages;

derive(() => {
  stride = data.sums.stride;
  sums = Float64Array.from(data.sums.numbers);
  // The numbers of the sums of each side and metric, by row; or bytes, of pages.
  columns = sides.map((_, side) => METRICS.map((metric, index) => {
    const column = HEAD + side * PER_SIDE + (metric.pages ? SUMS + 1 : index);
    return Float64Array.from(data.rows, (row) => row[column]);
  }));
  hasPages = columns.some((side) => side[METRICS.length - 1].some((mapped) => mapped > 0));
});

/** One row's value without its interval. */
function rowValue(row, side, metric, unit) {
  if (windowed.sums) return isKnown(metric) ? windowed.sums[metric][row * stride + unit] : 0;
  const number = columns[side][metric][row];
  return METRICS[metric].pages ? number : sums[number * stride + unit];
}

/** Adds up sums together with what their intervals are made of. */
class Total {
  constructor(side = 0) {
    this.parts = new Float64Array(stride);
    this.unseen = sides[side].unseen;
  }

  add(number, metric) {
    if (METRICS[metric].pages) this.parts[0] += number;
    else this.addSum(sums, number * stride);
  }

  addRow(row, side, metric) {
    if (!windowed.sums) this.add(columns[side][metric][row], metric);
    else if (isKnown(metric)) this.addSum(windowed.sums[metric], row * stride);
  }

  addSum(from, at) {
    this.isHeap = true;
    for (let i = 0; i < stride; i++) this.parts[i] += from[at + i];
  }

  estimate(unit) {
    const p = this.parts, value = p[unit];
    if (stride === 2) return { value, low: value, high: value };
    const m = 4 + 4 * unit;
    const unseen = this.isHeap ? this.unseen[unit] : 0;
    return interval(value, p[2 + unit], p[m], p[m + 1], p[m + 2], p[m + 3], unseen, unit === 1 && unseen > 0);
  }
}

/** Of everything on a side, also what found no place among the rows. */
function sideTotal(side, metric, unit) {
  const [value, low, high] = sides[side].peak;
  if (metric === PEAK && unit === 0) return { value, low, high };
  const total = new Total(side);
  total.add(sides[side].total[METRICS[metric].pages ? SUMS + 1 : metric], metric);
  return total.estimate(unit);
}

/** What some rows hold: now, before, and what changed. */
function amountOf(list, metric, unit) {
  const [now, before] = [0, 1].map((side) => {
    const total = new Total(Math.min(side, sides.length - 1));
    if (side < sides.length) for (const row of list) total.addRow(row, side, metric);
    return total.estimate(unit);
  });
  return { now, before, change: difference(now, before) };
}

