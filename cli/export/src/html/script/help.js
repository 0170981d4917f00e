// Keys and words of the page, in a dialog that `?` opens.

const KEYS = [
  ['/', 'search'],
  ['?', 'this help'],
  ['Tab, Shift Tab', 'next or previous control'],
  ['Arrow keys', 'in the picture: to the caller, to what is called, and to the frames beside it'],
  ['Enter', 'in the picture: zoom into the frame'],
  ['Escape', 'in the picture: zoom out; in the search: clear it; on a handle: clear the window'],
  ['Home', 'in the picture: to the frame zoomed into; in a table: to its first line (End: the last)'],
  ['Up, Down', 'in the table of places: from line to line'],
  ['Right, Left', 'in the table of places: show the stack of a line, hide it; in its head: other columns'],
  ['Left, Right', 'on a handle of the timeline: move it (Page Up and Down: ten times as far)'],
  ['Back, Forward', 'of the browser: undo a choice, do it again; the address is a link to what is shown'],
];

function isTyping(event) {
  return /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox';
}

function showHelp() {
  const dialog = byId('help'), close = make('button.plain', { type: 'button', onclick: () => dialog.close() }, 'Close');
  const list = (pairs, name) => make('dl', {}, ...pairs.flatMap(([key, text]) => [make('dt', {}, name(key)), make('dd', {}, text)]));
  const words = METRICS.map(({ name, what }) => [name, what]);
  dialog.append(make('h2', { id: 'help-title' }, 'Keys and words'),
    list(KEYS, (key) => make('kbd', {}, key)), make('h3', {}, 'Measures'), list(words, (word) => word),
    make('p.dim', {}, 'Only blocks allocated since the attach are counted. A measure chosen is that of the whole page.'), close);
  byId('help-open').addEventListener('click', () => dialog.showModal());
  document.addEventListener('keydown', (event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === '?') dialog.showModal();
    else if (event.key === '/') byId('search').focus();
    else return;
    event.preventDefault();
  });
}

