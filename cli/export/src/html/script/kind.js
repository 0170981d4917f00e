// What kind of call it is: the program's, an interpreter's own, one that is interpreted, or none at all
// but the reason why a stack is not known further out.

const OTHER = 0, INTERPRETER = 1, SCRIPT = 2;

/** Where any program begins: it belongs to no interpreter, though it is in its file. */
const ENTRIES = ['_start', 'main'];

let kinds, isInterpreted, hasInterpreted, marks;

derive(() => {
  kinds = kindsOfCalls();
  isInterpreted = rowsInterpreted();
  hasInterpreted = isInterpreted.includes(1);
  // By the number of the function: why stacks are cut there.
  marks = new Map(tree.marks);
});

function kindsOfCalls() {
  const interpreters = new Set(tree.interpreters), scripts = new Set(tree.scripts);
  return Uint8Array.from(tree.calls, ([number]) => {
    const [name] = tree.functions[number];
    return interpreters.has(number) && !ENTRIES.includes(name) ? INTERPRETER : scripts.has(number) ? SCRIPT : OTHER;
  });
}

/** Rows in whose stack code is interpreted: there the interpreter's own calls can be left out. */
function rowsInterpreted() {
  const has = new Uint8Array(rows.length);
  if (tree.interpreters.length === 0 || tree.scripts.length === 0) return has;
  for (let row = 0; row < rows.length; row++) {
    for (let at = stacks.starts[row]; at < stacks.starts[row + 1] && !has[row]; at++) {
      if (kinds[stacks.calls[at]] === SCRIPT) has[row] = 1;
    }
  }
  return has;
}

/** Whether a call of a row's stack is left out, as the reader chose. */
function isLeftOut(row, call) {
  return !state.interpreters && isInterpreted[row] === 1 && kinds[call] === INTERPRETER;
}

function isMark(call) {
  return marks.has(tree.calls[call][0]);
}

/** In a sentence: what a name stands for that is not a function's. */
function explained(call) {
  const why = marks.get(tree.calls[call][0]);
  if (why !== undefined) return `Not a function: the stack is cut here, ${why}. What called it is not known.`;
  const [name] = functionOf(call), module = moduleOf(call);
  if (module === '[anonymous]') return 'Code made at run time: it is in no file, and has no debug symbols.';
  if (/\+0x[0-9a-f]+$/.test(name)) return 'No debug symbols: the number is the offset in the module.';
  if (kinds[call] === SCRIPT) return 'A function that the interpreter runs.';
  return '';
}

