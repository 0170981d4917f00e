// The reader's choices in the address: a link shows what its sender saw, and the browser's buttons go back
// and forth among them. What an address says is checked: it may come from anywhere.

/** So long no choice was made before the address changes: a drag or a word is one step back. */
const SETTLED = 200;

const isNumber = (text) => /^\d{1,15}$/.test(text);
const oneOf = (...values) => ({ write: (value) => value, read: (text) => (values.includes(text) ? text : undefined) });
const flag = { write: () => '1', read: (text) => (text === '1' ? true : undefined) };
const below = (most) => ({ write: String, read: (text) => (isNumber(text) && Number(text) < most() ? Number(text) : undefined) });
const named = (names) => ({
  write: (at) => names()[at],
  read: (text) => (names().includes(text) ? names().indexOf(text) : undefined),
});

/** How each choice is written, and how it is read: `undefined` if there is no such thing on this page. */
const LINKED = {
  metric: named(() => METRICS.map(({ name }) => name.toLowerCase())),
  unit: named(() => ['bytes', 'blocks']),
  thread: named(() => data.threads),
  time: {
    write: (time) => time.map(Math.round).join('-'),
    read: (text) => {
      const ends = text.split('-');
      if (ends.length !== 2 || !ends.every(isNumber)) return undefined;
      const [from, to] = ends.map(Number);
      return from < to && to <= timeEnd() ? [from, to] : undefined;
    },
  },
  direction: oneOf('down', 'up'),
  shape: oneOf('icicle', 'flame'),
  width: isDiff ? oneOf('change', 'now', 'before') : oneOf('now'),
  lines: flag,
  allocators: flag,
  interpreters: flag,
  full: flag,
  group: flag,
  query: { write: (query) => query, read: (text) => text.slice(0, 200) },
  path: {
    write: (path) => path.join('.'),
    read: (text) => {
      const keys = text.split('.');
      return keys.every(isNumber) ? keys.map(Number) : undefined;
    },
  },
  sort: oneOf('site', 'change', 'now', 'before', ...METRICS.map((_, at) => String(at))),
  ascending: flag,
  open: below(() => tree.calls.length),
};

// They are numbers in the data of the moment: what another page shows by them is something else.
if (isLive) for (const name of ['path', 'open']) delete LINKED[name];

const link = { written: '', timer: 0 };

/** The choices that are not those of a page just opened. */
function choicesInLink() {
  const told = new URLSearchParams();
  for (const [name, { write }] of Object.entries(LINKED)) {
    if (!isSameChoice(state[name], INITIAL[name])) told.set(name, write(state[name]));
  }
  return told.toString();
}

/** All choices, as the address has them. */
function linkedChoices() {
  const told = new URLSearchParams(location.hash.slice(1)), choices = { ...INITIAL };
  for (const [name, { read }] of Object.entries(LINKED)) {
    const value = told.has(name) ? read(told.get(name)) : undefined;
    if (value !== undefined) choices[name] = value;
  }
  return { ...choices, ...changesOfWindow(choices.time, choices.metric) };
}

/** Writes the choices into the address. While a word is typed or a window moves, that is one step. */
function writeLink() {
  const text = choicesInLink();
  if (text === link.written) return;
  const [was, is] = [link.written, text].map((each) => new URLSearchParams(each));
  const isMove = (name) => was.has(name) && is.has(name) && was.get(name) !== is.get(name);
  const isStep = !['query', 'time'].some(isMove);
  link.written = text;
  try {
    history[isStep ? 'pushState' : 'replaceState'](null, '', `#${text}`);
  } catch { /* A page inside another one may have no address: choices are then in none. */ }
}

function showLink() {
  link.written = choicesInLink();
  watch(Object.keys(LINKED), () => {
    clearTimeout(link.timer);
    link.timer = setTimeout(writeLink, SETTLED);
  });
  window.addEventListener('popstate', () => {
    clearTimeout(link.timer);
    update(linkedChoices());
    link.written = choicesInLink();
  });
  // Links within the page move there, and leave the address to the choices.
  for (const anchor of document.querySelectorAll('a[href^="#"]')) {
    anchor.addEventListener('click', (event) => {
      event.preventDefault();
      const target = byId(anchor.hash.slice(1));
      target.scrollIntoView();
      target.focus({ preventScroll: true });
    });
  }
}

