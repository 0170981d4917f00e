// Rectangles in a rectangle, as near to squares as it goes.

/** How far the worst of a row is from a square; the row has `sum` of the area, along a side. */
function worstShape(largest, smallest, sum, side) {
  const [squared, along] = [sum * sum, side * side];
  return Math.max(along * largest / squared, squared / (along * smallest));
}

/** Of each value, which must be in descending order: [x, y, width, height]. */
function squarified(values, x, y, width, height) {
  const total = values.reduce((sum, value) => sum + value, 0);
  const placed = [];
  if (!(total > 0) || !(width > 0) || !(height > 0)) return values.map(() => [x, y, 0, 0]);
  const scale = width * height / total;
  let start = 0;
  while (start < values.length) {
    const side = Math.min(width, height);
    let end = start, sum = 0, worst = Infinity;
    while (end < values.length) {
      const more = sum + values[end] * scale;
      const shape = worstShape(values[start] * scale, values[end] * scale, more, side);
      if (end > start && shape > worst) break;
      [worst, sum, end] = [shape, more, end + 1];
    }
    const depth = side > 0 ? sum / side : 0;
    let at = 0;
    for (let i = start; i < end; i += 1) {
      const long = depth > 0 ? values[i] * scale / depth : 0;
      placed.push(width >= height ? [x, y + at, depth, long] : [x + at, y, long, depth]);
      at += long;
    }
    if (width >= height) [x, width] = [x + depth, Math.max(0, width - depth)];
    else [y, height] = [y + depth, Math.max(0, height - depth)];
    start = end;
  }
  return placed;
}
