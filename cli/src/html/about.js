// Whose memory it was, what is missing, and how sure the numbers are.

const LOSSES = {
  blocks: 'blocks and mappings found no room in a ring: they are in no number',
  frees: 'blocks were given back without room to say so: they are shown as held',
  samples: 'samples could not be remembered by the process: they are in no number',
  beyond_limit: 'blocks were more than heapattach holds: they are in no number',
  stacks: 'stacks found no room: what they asked for stands under [no-room]',
  torn: 'records were never finished or made no sense',
  missed_frees: 'blocks must have been given back unseen',
};

const ENDS = {
  depth: 'they are deeper than was followed',
  'off-stack': 'they run on a stack that nobody knows (of a coroutine, of a signal handler)',
  'no-table': 'they lead through code without unwind information',
  'no-rule': 'they lead through code whose unwind information cannot be followed',
  'no-room': 'there was no room for another stack',
  implausible: 'the next call made no sense',
};

/** What is missing, in sentences. */
function losses(about) {
  const all = Object.entries(LOSSES).filter(([name]) => about.loss[name] > 0)
    .map(([name, text]) => `${grouped(about.loss[name])} ${text}`);
  if (about.outcome === '') {
    all.push('the recording does not say how it ended: what came after its end is not in it');
  }
  return all;
}

function started(about) {
  const date = new Date(about.began * 1000);
  return about.began > 0 && !isNaN(date) ? date.toLocaleString() : 'at an unknown time';
}

function ending(about) {
  const exit = about.exit === null ? '' : about.exit.code !== undefined
    ? `, status ${about.exit.code}` : `, signal ${about.exit.signal}`;
  return (about.outcome || 'not told') + exit;
}

function precision(about) {
  return about.every <= 1 ? 'every block was recorded: sums are exact'
    : `one sample per ${bytes(about.every)}: sums are estimates, with their 95 % intervals`;
}

function showAbout() {
  const about = data.now.about;
  const command = about.command || 'command left out';
  document.title = `${base(command.split(' ')[0])} (${about.pid}) \u2013 heapattach`;
  byId('command').textContent = command;
  byId('command').title = command;
  byId('process').textContent = `process ${about.pid}, counted for ${duration(about.lasted_ms)}`
    + (isDiff ? `, compared with process ${data.base.about.pid}` : '');
  const missing = sides.map((side) => losses(side.about));
  const isWhole = missing.every((list) => list.length === 0);
  const badge = byId('loss');
  badge.textContent = isWhole ? 'nothing was lost' : 'something is missing';
  badge.classList.add(isWhole ? 'good' : 'bad');
  byId('accuracy').textContent = sides.some((side) => side.about.every > 1)
    ? `one sample per ${bytes(Math.max(...sides.map((side) => side.about.every)))}`
    : 'every block recorded';
  sides.forEach((side, i) => byId('about-list').append(aboutSide(side.about, missing[i], i)));
}

function aboutSide(about, missing, index) {
  const facts = [
    ['Process', `${about.pid}: ${about.command || 'command left out'}`],
    ['Counted', `from ${started(about)} for ${duration(about.lasted_ms)}`],
    ['Ended', ending(about)],
    ['Accuracy', precision(about)],
    ['Temporary', `given back within ${duration(about.temporary_ms)}`],
    ['Recorded by', `heapattach ${about.version}`],
  ];
  const list = make('dl', {});
  for (const [name, text] of facts) list.append(make('dt', {}, name), make('dd', {}, text));
  const title = isDiff ? make('h3', {}, index === 0 ? 'Now' : 'Before') : null;
  return make('div.about', {}, title || '', list,
    paragraphs('What is missing', missing.length > 0 ? missing : ['Nothing was lost on the way.']),
    paragraphs('What cannot be seen', [
      'Blocks from before counting began, of which only the end could have been seen.',
      ...about.blind]),
    paragraphs('Stacks that are not whole', cuts(about)),
    paragraphs('Code without names', about.missing_symbols));
}

function cuts(about) {
  const all = Object.values(about.ends).reduce((sum, n) => sum + n, 0);
  return Object.entries(about.ends).filter(([end, n]) => end !== 'outermost' && n > 0)
    .map(([end, n]) => `${percent(n, all)} of recorded allocations, under [${end}]: ${ENDS[end] || end}`);
}

function paragraphs(title, lines) {
  if (lines.length === 0) return '';
  return make('div', {}, make('h4', {}, title), make('ul', {}, ...lines.map((line) => make('li', {}, line))));
}

