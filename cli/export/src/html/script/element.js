// Elements. Whatever a name contains becomes text: nothing here ever reads markup.

const SVG = 'http://www.w3.org/2000/svg';

function byId(id) {
  return document.getElementById(id);
}

/** `tag` may bring classes along: `span.dim`. A child is an element or a text. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag.split('.')[0]), tag, attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag.split('.')[0]), tag, attributes, children);
}

function fill(element, tag, attributes, children) {
  for (const name of tag.split('.').slice(1)) element.classList.add(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ''));
  return element;
}

/** A switch for a choice that is on or off: `also` are changes that come with it, `isOffered` says whether there is
    anything to choose. */
function addSwitch(parent, name, text, title, { also = {}, isOffered = () => true } = {}) {
  const box = make('input', { type: 'checkbox', id: name, onchange: () => update({ [name]: box.checked, ...also }) });
  const label = make('label', { title }, box, text), place = document.createComment('');
  parent.append(place);
  watch([name], () => {
    box.checked = state[name];
    if (!isOffered()) label.remove();
    else if (!label.isConnected) place.after(label);
  });
}

/** A row of buttons of which one is pressed. Gives the function that presses one. */
function choice(parent, label, options, pick) {
  const buttons = options.map(([value, text, title]) => make('button', {
    title: title || null, 'data-value': value, onclick: () => pick(value),
  }, text));
  parent.append(make('span.choice', { role: 'group', 'aria-label': label }, ...buttons));
  return (value) => buttons.forEach((button) => {
    button.setAttribute('aria-pressed', String(button.dataset.value === String(value)));
  });
}

