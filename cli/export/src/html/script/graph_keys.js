// The graph by the keyboard: a cursor that moves among frames, and says where it is.

/** Moves the cursor of the keyboard, and says where it is. */
function moveTo(rectangle) {
  if (!rectangle) return;
  graph.cursor = rectangle;
  byId('spoken').textContent = describe(rectangle).join(', ');
  paintGraph();
}

function onKey(event) {
  const [inner, outer] = state.shape === 'icicle' ? ['ArrowDown', 'ArrowUp'] : ['ArrowUp', 'ArrowDown'];
  const at = graph.cursor || rectangleOf(graph.zoomed);
  const all = graph.picture.rectangles.filter((each) => !each.rest);
  const actions = {
    [inner]: () => moveTo(all.find((each) => isSame(each.frame.parent, at.frame))),
    [outer]: () => moveTo(all.find((each) => isSame(each.frame, at.frame.parent))),
    ArrowRight: () => moveTo(beside(all, at, 1)),
    ArrowLeft: () => moveTo(beside(all, at, -1)),
    Home: () => moveTo(rectangleOf(graph.zoomed)),
    Enter: () => zoom(at.frame),
    Escape: () => zoom(graph.zoomed.parent || graph.zoomed),
  };
  if (!at || !actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function beside(all, at, by) {
  const level = all.filter((each) => each.level === at.level).sort((a, b) => a.x - b.x);
  return level[level.findIndex((each) => isSame(each.frame, at.frame)) + by];
}

