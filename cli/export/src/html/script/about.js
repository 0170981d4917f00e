// Whose memory it was, what is missing, and how sure the numbers are.

function commandOf(about) {
  return about.command || 'command left out';
}

function started(about) {
  const date = new Date(about.began * 1000);
  return about.began > 0 && !isNaN(date) ? date.toLocaleString() : 'at an unknown time';
}

function precision(about) {
  return about.every <= 1 ? 'every block is recorded'
    : `one sample per ${bytes(about.every)}, 95 % CI`;
}

function showAbout() {
  watch([], drawAbout);
}

function drawAbout() {
  const about = data.now.about;
  const command = commandOf(about);
  document.title = `${base(command.split(' ')[0])} (${about.pid}) \u2013 heapattach`;
  byId('command').textContent = command;
  byId('command').title = command;
  byId('process').textContent = `process ${about.pid}, counted for ${duration(about.lasted_ms)}`
    + (isDiff ? `, compared with process ${data.base.about.pid}` : '')
    + about.part.map((part) => `; only ${part}`).join('');
  const isWhole = sides.every((side) => side.about.missing.length === 0);
  const badge = byId('loss');
  badge.textContent = isWhole ? 'no records dropped' : 'records are missing';
  if (isWhole && about.outcome === null) badge.textContent += ' so far';
  badge.classList.toggle('good', isWhole);
  badge.classList.toggle('bad', !isWhole);
  byId('accuracy').textContent = precision(about);
  byId('about-list').replaceChildren(...sides.map((side, i) => aboutSide(side.about, i)), aboutNames());
}

function aboutSide(about, index) {
  const facts = [
    ['Process', `${about.pid}: ${commandOf(about)}`],
    ['Counted', `from ${started(about)} for ${duration(about.lasted_ms)}`],
    ['Ended', about.outcome || 'not told: it goes on, or the recording breaks off'],
    ['Accuracy', precision(about)],
    ['Temporary', `freed within ${duration(about.temporary_ms)}`],
    ...about.part.map((part) => ['Only', part]),
    ['Recorded by', `heapattach ${about.version}`],
  ];
  const list = make('dl', {});
  for (const [name, text] of facts) list.append(make('dt', {}, name), make('dd', {}, text));
  const title = isDiff ? make('h3', {}, ['Now', 'Before'][index]) : '';
  return make('div.about', {}, title, list,
    paragraphs('What is missing', about.missing.length > 0 ? about.missing : ['no records dropped']),
    paragraphs('Types that the code allocates', about.types || []),
    paragraphs('What cannot be seen', about.unseen),
    paragraphs('Stacks that are not whole', about.cuts),
    paragraphs('Code without names', about.missing_symbols));
}

/** Names in the picture that are not those of functions. */
function aboutNames() {
  const lines = tree.marks.map(([number, why]) => `${tree.functions[number][0]}: stacks cut ${why}; what called is not known`);
  if (tree.functions.some(([name]) => /\+0x[0-9a-f]+$/.test(name))) {
    lines.push('module+0x123: a function without debug symbols, by its offset in the module');
  }
  if (tree.modules.includes('[anonymous]')) lines.push('[anonymous]: code made at run time, in no file');
  if (hasInterpreted) {
    lines.push(`${tree.scripts.map((module) => tree.modules[module]).join(', ')}: functions that an interpreter runs; `
      + 'the interpreter\'s own calls between them are left out, unless the switch "Interpreter" is on');
  }
  lines.push('N narrower frames: side by side, each less than 2 pixels wide; zoom in to see them');
  return paragraphs('Names in the picture that are not functions', lines);
}

function paragraphs(title, lines) {
  if (lines.length === 0) return '';
  return make('div', {}, make('h4', {}, title), make('ul', {}, ...lines.map((line) => make('li', {}, line))));
}

