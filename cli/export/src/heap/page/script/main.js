// Everything in its place.

function showHead() {
  const { about } = moment;
  const command = about.command || 'command left out';
  const program = command.split(' ')[0].split('/').pop();
  document.title = `${program} (${about.pid}), memory \u2013 heapattach`;
  byId('command').textContent = command;
  byId('command').title = command;
  const at = about.taken_ms === null ? '' : `, ${new Date(about.taken_ms).toLocaleString()}`;
  byId('process').textContent = `process ${about.pid}${at}`;
  byId('verdict').textContent = about.verdict;
  byId('lines').append(...about.lines.map((line) => make('li', {}, line)));
}

function showThemes() {
  const press = choice(byId('themes'), 'Colours',
    [['auto', 'Auto', 'as the system has it'], ['light', 'Light'], ['dark', 'Dark']], (theme) => {
      document.documentElement.dataset.theme = theme;
      press(theme);
    });
  press('auto');
}

const moment = globalThis.recorded;
showHead();
showThemes();
showMap();
moment.tables.forEach(showTableOf);
document.documentElement.dataset.ready = 'true';
