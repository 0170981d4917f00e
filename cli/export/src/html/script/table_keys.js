// Tables by the keyboard: arrow keys go from line to line, and in the head from column to column.

function showTableKeys() {
  byId('sites').addEventListener('keydown', onTableKey);
  byId('sites-head').addEventListener('keydown', (event) => moveAmong(event, byId('sites-head'), 'ArrowLeft', 'ArrowRight'));
  byId('tiles').addEventListener('keydown', (event) => moveAmong(event, byId('tiles'), 'ArrowLeft', 'ArrowRight'));
}

function onTableKey(event) {
  moveAmong(event, byId('sites'), 'ArrowUp', 'ArrowDown', 'th button');
  const line = event.target.closest('tr[data-call]');
  const isOpen = { ArrowRight: true, ArrowLeft: false }[event.key];
  if (line === null || isOpen === undefined) return;
  event.preventDefault();
  openSite(isOpen ? Number(line.dataset.call) : null, Number(line.dataset.call));
}

/** Moves the focus among the buttons of an element: back, on, to the first, to the last. */
function moveAmong(event, parent, back, on, selector = 'button') {
  const buttons = [...parent.querySelectorAll(selector)].filter((button) => !button.disabled && button.offsetParent !== null);
  const at = buttons.indexOf(event.target);
  const to = { [back]: at - 1, [on]: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, to))].focus();
}

