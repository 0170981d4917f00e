// The graph as a picture: which frame lies where, and how it is painted. It costs what can be seen:
// frames narrower than a pixel are put together.

const LEVEL = 20, LEVELS = 300, NARROW = 1.5;

/** Rectangles of the frame zoomed into, of those it is in, and of all below it that are wide enough. */
function layOut(sorted, zoomed, weights, width) {
  const prefix = new Float64Array(rows.length + 1);
  for (let i = 0; i < rows.length; i++) prefix[i + 1] = prefix[i] + weights[sorted.order[i]];
  const weightOf = (frame) => prefix[frame.end] - prefix[frame.start];
  const rectangles = [], whole = weightOf(zoomed);
  for (let at = zoomed.parent; at; at = at.parent) {
    rectangles.unshift({ frame: at, x: 0, w: width, level: at.depth, isOuter: true });
  }
  const scale = whole > 0 ? width / whole : 0;
  let isCut = false;
  const visit = (frame, x, w) => {
    rectangles.push({ frame, x, w, level: frame.depth });
    if (frame.depth - zoomed.depth >= LEVELS) { isCut = true; return; }
    const below = sorted.children(frame).map((child) => ({ child, w: weightOf(child) * scale }))
      .filter((each) => each.w > 0).sort((a, b) => b.w - a.w);
    let left = x, rest = 0, restWidth = 0;
    for (const each of below) {
      if (each.w < NARROW) { rest += 1; restWidth += each.w; continue; }
      visit(each.child, left, each.w);
      left += each.w;
    }
    if (restWidth >= 1) rectangles.push({ frame, x: left, w: restWidth, level: frame.depth + 1, rest });
  };
  if (whole > 0) visit(zoomed, 0, width);
  const levels = rectangles.reduce((most, r) => Math.max(most, r.level), 0) + 1;
  return { rectangles, levels, isCut, width };
}

/** A call that a frame stands for: of a function, any of its lines. */
function callOf(sorted, frame) {
  return sorted.calls[sorted.starts[sorted.order[frame.start]] + frame.depth - 1];
}

function nameOf(sorted, frame) {
  if (!frame.parent) return isDiff ? 'all stacks of both' : 'all stacks';
  const call = callOf(sorted, frame);
  const line = state.lines ? place(call) : '';
  return shownName(call) + (line === '' ? '' : ` ${line}`);
}

/** Makes the canvas as large as the picture, in pixels of the screen. */
function resize(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
}

function topOf(level, levels) {
  return state.shape === 'icicle' ? level * LEVEL : (levels - 1 - level) * LEVEL;
}

/** `look`: colours of the page, what matches, where the cursor is. */
function paint(context, picture, look) {
  context.clearRect(0, 0, picture.width, picture.levels * LEVEL);
  context.font = look.font;
  context.textBaseline = 'middle';
  const letter = context.measureText('0').width;
  for (const rectangle of picture.rectangles) {
    paintRectangle(context, rectangle, topOf(rectangle.level, picture.levels), letter, look);
  }
}

function paintRectangle(context, rectangle, y, letter, look) {
  const { frame, x, w, rest, isOuter } = rectangle, isMatch = look.isMatch(rectangle);
  const isDimmed = isOuter || (search.isOn && !isMatch);
  context.globalAlpha = isDimmed ? 0.38 : 1;
  context.fillStyle = rest ? look.rest : look.colour(frame);
  context.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0.3), 0.7), LEVEL - 1);
  if (isMatch) {
    context.fillStyle = look.match;
    context.fillRect(x, y + LEVEL - 4, Math.max(w - 1, 0.7), 3);
  }
  const room = Math.floor((w - 9) / letter);
  if (room >= 3) {
    const text = rest ? `${grouped(rest)} narrower frames` : nameOf(graph.sorted, frame);
    context.fillStyle = look.ink;
    context.globalAlpha = isDimmed ? 0.7 : 1;
    context.fillText(text.length > room ? `${text.slice(0, room - 1)}\u2026` : text, x + 4, y + LEVEL / 2);
  }
  context.globalAlpha = 1;
  if (look.cursor && rectangle === graph.cursor) {
    context.strokeStyle = look.cursor;
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), LEVEL - 3);
  }
}

