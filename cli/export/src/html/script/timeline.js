// Time: what blocks held, and what the process had, one above the other.

const SERIES = [
  { panel: 0, name: 'live', title: 'in use by recorded blocks', fills: true },
  { panel: 1, name: 'rss', title: 'RSS', fills: true },
  { panel: 1, name: 'pss', title: 'PSS' },
  { panel: 1, name: 'anonymous', title: 'anonymous' },
  { panel: 2, name: 'cgroup', title: 'control group, with all its processes', fills: true },
  { panel: 2, name: 'cgroup_limit', title: 'its limit', isLimit: true },
];

/** The control group has other processes and the page cache in it, so that its numbers are of another size. */
const PANELS = [
  { title: 'Blocks', height: 118 },
  { title: 'Process', height: 118 },
  { title: 'Control group', height: 100, isOptional: true },
];
const MARGIN = { left: 70, right: 14, top: 20, gap: 30, bottom: 24 };

const timeline = { window: null };

derive(() => {
  timeline.moments = data.now.moments;
  timeline.last = timeEnd();
});

function pointsOf(moments, name) {
  return moments.at_ms.map((at, i) => [at, moments[name][i]]).filter(([, value]) => value !== null);
}

/** Series of a panel that say anything; with a comparison the lines of before, too. */
function seriesOf(panel) {
  const all = [];
  sides.forEach((side, index) => SERIES.filter((each) => each.panel === panel).forEach((each) => {
    const points = pointsOf(side.moments, each.name);
    if (points.length < 2 || points.every(([, value]) => value === 0)) return;
    if (index === 1 && (each.isLimit || !['live', 'rss'].includes(each.name))) return;
    const isBefore = index === 1, title = isBefore ? `${each.title} before` : each.title;
    all.push({ ...each, points, isBefore, title });
  }));
  return all;
}

function isPanelShown(panel) {
  return !PANELS[panel].isOptional || state.group;
}

/** When the last thing that is known happened. */
function timeEnd() {
  return Math.max(...sides.map((side) => side.moments.at_ms.at(-1) || 0), spans.at(-1) || 0);
}

function showTimeline() {
  const parent = byId('timeline');
  addSwitch(byId('panels'), 'group', 'Control group', 'show the memory of the control group (cgroup), on an axis of its own',
    { isOffered: () => hasMoments() && seriesOf(2).length > 0 });
  watch(['group'], drawTimeline);
  watch(['time'], () => {
    timeline.window = state.time;
    if (hasMoments()) showWindow();
  });
  new ResizeObserver(() => {
    if (Math.abs(parent.clientWidth - timeline.width) > 1) drawTimeline();
  }).observe(parent);
}

function hasMoments() {
  return timeline.moments.at_ms.length > 1;
}

function drawTimeline() {
  const isKnown = hasMoments();
  byId('window').hidden = !isKnown;
  byId('window-note').hidden = !isKnown;
  if (!isKnown) {
    byId('timeline').replaceChildren(make('p.dim', {}, 'No moments were recorded.'));
    return;
  }
  byId('window-note').textContent = windowNote();
  const parent = byId('timeline'), width = Math.max(parent.clientWidth, 260);
  timeline.width = width;
  timeline.inner = width - MARGIN.left - MARGIN.right;
  timeline.x = (at) => MARGIN.left + timeline.inner * at / timeline.last;
  timeline.at = (x) => Math.max(0, Math.min(timeline.last, (x - MARGIN.left) / timeline.inner * timeline.last));
  const drawn = [];
  let top = MARGIN.top;
  PANELS.forEach((panel, index) => {
    const series = isPanelShown(index) ? seriesOf(index) : [];
    if (series.length === 0) return;
    drawn.push(drawPanel(panel, series, top));
    top += panel.height + MARGIN.gap;
  });
  timeline.bottom = top - MARGIN.gap;
  const height = timeline.bottom + MARGIN.bottom;
  const svg = makeSvg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group',
    'aria-label': courseInWords() }, ...drawn, timeAxis());
  parent.replaceChildren(svg);
  drawBrush(parent, svg);
}

/** What the picture shows, for those who cannot see it. */
function courseInWords() {
  const told = SERIES.filter(({ panel, isLimit }) => !isLimit && isPanelShown(panel)).map(({ name, title }) => {
    const values = pointsOf(timeline.moments, name).map(([, value]) => value);
    if (values.length < 2 || values.every((value) => value === 0)) return '';
    const most = values.reduce((a, b) => Math.max(a, b));
    return `${title}: ${bytes(values[0])} at the beginning, ${bytes(values.at(-1))} at the end, at most ${bytes(most)}`;
  });
  return [`Memory over ${duration(timeline.last)}`, ...told.filter((text) => text !== '')].join('; ');
}

function drawPanel(panel, series, top) {
  const drawn = Math.max(...series.filter((each) => !isFarLimit(each, series))
    .flatMap((each) => each.points.map(([, value]) => value)), 1);
  const band = series[0].name === 'live' ? bandOf(timeline.moments) : null;
  // Of very few samples the interval would leave no room for the line.
  const most = band ? Math.min(Math.max(drawn, ...timeline.moments.high), 2 * drawn) : drawn;
  const marks = ticks(most * 1.04, 4, 2), highest = Math.max(most * 1.04, marks.at(-1));
  const y = (value) => top + panel.height * (1 - value / highest);
  const group = makeSvg('g', {});
  for (const mark of marks) {
    const right = timeline.width - MARGIN.right;
    group.append(makeSvg('line.grid', { x1: MARGIN.left, x2: right, y1: y(mark), y2: y(mark) }),
      makeSvg('text.axis', { x: MARGIN.left - 8, y: y(mark) + 4, 'text-anchor': 'end' }, bytes(mark)));
  }
  const names = makeSvg('text.names', { x: MARGIN.left, y: top - 8 });
  for (const each of series) {
    const isFar = isFarLimit(each, series), name = `${each.name}${each.isBefore ? '-before' : ''}`;
    const sure = name === 'live' && band ? (timeline.width < 480 ? ', 95 % CI' : ', with its 95 % CI') : '';
    names.append(makeSvg(`tspan.of-${name}`, { dx: names.childNodes.length > 0 ? 14 : 0 },
      `\u25cf ${each.title}${sure}${isFar ? `: ${bytes(each.points.at(-1)[1])}, far above` : ''}`));
    if (isFar) continue;
    const line = each.points.map(([at, value]) => `${timeline.x(at).toFixed(1)},${y(value).toFixed(1)}`).join('L');
    const ends = [each.points[0], each.points.at(-1)].map(([at]) => timeline.x(at).toFixed(1));
    if (each.fills && !each.isBefore) {
      group.append(makeSvg(`path.area.of-${name}`, { d: `M${ends[0]},${y(0)}L${line}L${ends[1]},${y(0)}Z` }));
    }
    if (band && name === 'live') group.append(makeSvg('path.band', { d: band(y, highest) }));
    group.append(makeSvg(`path.line.of-${name}`, { d: `M${line}` }));
  }
  group.append(names);
  if (series[0].name === 'live') group.append(peakMark(series[0], y));
  return group;
}

/** Between the ends of the intervals; none where all is known. */
function bandOf({ at_ms, low, high }) {
  if (low.every((end, i) => end === high[i])) return null;
  return (y, highest) => {
    const height = (end) => y(Math.min(end, highest)).toFixed(1);
    const points = (ends) => at_ms.map((at, i) => `${timeline.x(at).toFixed(1)},${height(ends[i])}`);
    return `M${[...points(low), ...points(high).reverse()].join('L')}Z`;
  };
}

/** A limit that would press all else to the ground is told, not drawn. */
function isFarLimit(each, series) {
  if (!each.isLimit) return false;
  const others = series.filter((other) => !other.isLimit);
  return each.points.at(-1)[1] > 3 * Math.max(...others.flatMap(({ points }) => points.map(([, value]) => value)), 1);
}

function peakMark(live, y) {
  const [at, value] = live.points.reduce((most, each) => (each[1] > most[1] ? each : most));
  const x = timeline.x(at), isRight = x > timeline.width - 140;
  return makeSvg('g.peak', {}, makeSvg('circle', { cx: x, cy: y(value), r: 3.5 }),
    makeSvg('text', { x: x + (isRight ? -8 : 8), y: y(value) - 6, 'text-anchor': isRight ? 'end' : 'start' },
      `peak ${bytes(value)}`));
}

function timeAxis() {
  const marks = timeTicks(timeline.last, Math.max(3, timeline.inner / 110));
  const step = marks.length > 1 ? marks[1] - marks[0] : timeline.last;
  return makeSvg('g', {}, ...marks.map((mark) => makeSvg('text.axis', {
    x: timeline.x(mark), y: timeline.bottom + 17, 'text-anchor': 'middle' }, clock(mark, step))));
}

function timeTicks(last, parts) {
  const MINUTE = 60_000, DAY = 1440 * MINUTE;
  if (last <= 3 * MINUTE) return ticks(last, parts, 10);
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 360, 720].map((n) => n * MINUTE).find((each) => last / each <= parts)
    || Math.ceil(last / parts / DAY) * DAY;
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step);
}

