// The map: rectangles of what is inside of one thing, and inside of these. Each can be opened.

/** What is smaller on the screen is one rectangle with others. */
const SMALLEST = 240;
/** A rectangle shows what is inside of it from this size on, below its name. */
const WIDE = 70, HIGH = 58, TITLE = 38, TINTS = 6;

const state = { by: 0, path: [] };

function root() {
  return moment.trees[state.by][1];
}

function shownNode() {
  return state.path[state.path.length - 1] || root();
}

function inside(node) {
  return (node.inside || []).filter((child) => child.bytes > 0);
}

/** Those that can be seen in an area, and the others as one. */
function visible(node, area) {
  const all = inside(node);
  const sum = all.reduce((total, child) => total + child.bytes, 0);
  const large = all.filter((child) => child.bytes * area >= SMALLEST * sum);
  const small = all.slice(large.length);
  if (small.length < 2) return all;
  const bytesOf = small.reduce((total, child) => total + child.bytes, 0);
  const others = { name: `${count(small.length)} smaller`, bytes: bytesOf, inside: small };
  return [...large, others].sort((a, b) => b.bytes - a.bytes);
}

/** In words, within what is shown: the name, the size, and what more there is. */
function told(node, whole) {
  const blocks = node.blocks === undefined || node.blocks === null ? '' : `, ${count(node.blocks)} blocks`;
  return [node.name, `${bytes(node.bytes)}, ${percent(node.bytes, whole)}`, `of ${shownNode().name}${blocks}`];
}

function place(element, [x, y, width, height]) {
  element.style.left = `${x}px`;
  element.style.top = `${y}px`;
  element.style.width = `${width}px`;
  element.style.height = `${height}px`;
}

function tile(node, whole, box, tint) {
  const canOpen = inside(node).length > 0;
  const [name, size, more] = told(node, whole);
  const button = make(canOpen ? 'button' : 'button.leaf', {
    type: 'button', title: `${name}: ${size} ${more}`, tabindex: -1, 'data-tint': tint,
    onclick: () => { if (canOpen) open(node); },
  });
  const [, , width, height] = box;
  // All of it is its name for those who have it read; what has no room is out of sight.
  const isWide = width > 34;
  button.append(
    make(isWide && height > 18 ? 'span' : 'span.hidden', {}, name), ' ',
    make(isWide && height > 34 ? 'span.size' : 'span.hidden', {}, size), ' ',
    make('span.hidden', {}, canOpen ? `${more}. Opens.` : more),
  );
  if (canOpen && width > WIDE && height > HIGH) {
    const within = [4, TITLE, width - 10, height - TITLE - 6];
    const shown = visible(node, within[2] * within[3]);
    squarified(shown.map((child) => child.bytes), ...within).forEach((inner, i) => {
      const name = inner[2] > 50 && inner[3] > 20 ? make('span', {}, shown[i].name) : '';
      const element = make('div.inner', { 'aria-hidden': 'true' }, name);
      place(element, inner);
      button.append(element);
    });
  }
  place(button, box);
  return button;
}

function drawMap() {
  const map = byId('map'), node = shownNode();
  const [width, height] = [map.clientWidth, map.clientHeight];
  const shown = visible(node, width * height);
  const whole = node.bytes;
  const boxes = squarified(shown.map((child) => child.bytes), 0, 0, width, height);
  map.replaceChildren(...shown.map((child, i) => tile(child, whole, boxes[i], i % TINTS)));
  if (map.firstChild) map.firstChild.tabIndex = 0;
  drawCrumbs();
  drawInside(node);
}

function drawCrumbs() {
  const all = [root(), ...state.path];
  byId('crumbs').replaceChildren(...all.map((node, depth) => make('li', {},
    make('button', {
      type: 'button', 'aria-current': depth === all.length - 1 ? 'true' : null, onclick: () => back(depth),
    }, node.name))));
}

function drawInside(node) {
  const rows = inside(node).slice(0, 300).map((child) => {
    const canOpen = inside(child).length > 0;
    const name = canOpen ? make('button', { type: 'button', onclick: () => open(child) }, child.name) : child.name;
    return make('tr', {}, make('td', {}, bytes(child.bytes)), make('td', {}, percent(child.bytes, node.bytes)), make('td', {}, name));
  });
  const head = make('tr', {}, make('th', {}, 'bytes'), make('th', {}, 'part'), make('th', {}, node.name));
  byId('inside').replaceChildren(make('table.list', { 'aria-label': `Inside of ${node.name}` },
    make('thead', {}, head), make('tbody', {}, ...rows)));
}

function open(node) {
  state.path = [...state.path, node];
  show();
}

function back(depth) {
  state.path = state.path.slice(0, depth);
  show();
}

function show() {
  drawMap();
  const node = shownNode();
  byId('spoken').textContent = `${node.name}, ${bytes(node.bytes)}, ${inside(node).length} inside`;
  const first = byId('map').firstChild;
  if (first) first.focus();
}

/** The nearest rectangle to that side. */
function neighbour(from, key) {
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const [x, y] = middle(from);
  const sides = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const [right, down] = sides[key];
  let best = null, least = Infinity;
  for (const other of byId('map').children) {
    const [otherX, otherY] = middle(other);
    const ahead = (otherX - x) * right + (otherY - y) * down;
    const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * right);
    const far = ahead + 2 * aside;
    if (other !== from && ahead > 0.5 && far < least) [best, least] = [other, far];
  }
  return best;
}

function showMapKeys() {
  const map = byId('map');
  map.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const from = document.activeElement;
    let to = null;
    if (event.key.startsWith('Arrow')) to = neighbour(from, event.key);
    else if (event.key === 'Home') to = map.firstChild;
    else if (event.key === 'End') to = map.lastChild;
    else if (event.key === 'Escape' && state.path.length > 0) back(state.path.length - 1);
    else return;
    event.preventDefault();
    if (!to) return;
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
}

function showMap() {
  const names = moment.trees.map(([name], index) => [index, name]);
  const press = choice(byId('toolbar'), 'Live blocks by', names, (value) => {
    state.by = value;
    state.path = [];
    press(value);
    drawMap();
  });
  press(0);
  showMapKeys();
  drawMap();
  new ResizeObserver(() => {
    const isInside = byId('map').contains(document.activeElement);
    drawMap();
    if (isInside && byId('map').firstChild) byId('map').firstChild.focus();
  }).observe(byId('map'));
}
