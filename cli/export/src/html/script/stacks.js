// Stacks in an order in which all that begin alike stand together: a frame of the graph is a range of
// them, and no tree is ever built.

class Stacks {
  /** In the direction that the reader chose, of the calls that are shown; by line or by function. */
  constructor() {
    const { starts, calls } = stacks, isDown = state.direction === 'down';
    this.starts = new Int32Array(rows.length + 1);
    this.calls = new Int32Array(calls.length);
    let at = 0;
    const add = (row, call) => { if (!isLeftOut(row, call)) this.calls[at++] = call; };
    for (let row = 0; row < rows.length; row++) {
      const end = starts[row + 1] - (state.allocators ? 0 : rows.cause[row]);
      if (isDown) for (let i = starts[row]; i < end; i++) add(row, calls[i]);
      else for (let i = end - 1; i >= starts[row]; i--) add(row, calls[i]);
      this.starts[row + 1] = at;
    }
    this.keys = state.lines ? this.calls : this.calls.map((call) => tree.calls[call][0]);
    this.order = Int32Array.from({ length: rows.length }, (_, row) => row)
      .sort((a, b) => this.compare(a, b));
    this.common = this.order.map((row, i) => (i === 0 ? 0 : this.shared(this.order[i - 1], row)));
  }

  depth(row) {
    return this.starts[row + 1] - this.starts[row];
  }

  key(row, depth) {
    return this.keys[this.starts[row] + depth];
  }

  shared(a, b) {
    const length = Math.min(this.depth(a), this.depth(b));
    let i = 0;
    while (i < length && this.key(a, i) === this.key(b, i)) i += 1;
    return i;
  }

  compare(a, b) {
    const i = this.shared(a, b);
    if (i === this.depth(a) || i === this.depth(b)) return this.depth(a) - this.depth(b) || a - b;
    return this.key(a, i) - this.key(b, i);
  }

  /** The frame that all stacks begin with. */
  root() {
    return { start: 0, end: rows.length, depth: 0, key: -1, parent: null };
  }

  /** The frames right below one. Stacks that end in it come first and are in none of them. */
  children(frame) {
    const { end, depth } = frame, all = [];
    let start = frame.start;
    while (start < end && this.depth(this.order[start]) <= depth) start += 1;
    for (let i = start + 1; i <= end; i++) {
      if (i < end && this.common[i] > depth) continue;
      all.push({ start, end: i, depth: depth + 1, key: this.key(this.order[start], depth), parent: frame });
      start = i;
    }
    return all;
  }

  /** The frame at the end of a path of keys, or the last that there is. */
  find(path) {
    let frame = this.root();
    for (const key of path) {
      const next = this.children(frame).find((child) => child.key === key);
      if (!next) break;
      frame = next;
    }
    return frame;
  }

  rowsOf(frame) {
    return this.order.subarray(frame.start, frame.end);
  }
}

function pathOf(frame) {
  const path = [];
  for (let at = frame; at.parent; at = at.parent) path.unshift(at.key);
  return path;
}

