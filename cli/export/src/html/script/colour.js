// Colours of frames: one for each module, or by what changed.

const HUES = [32, 176, 212, 348, 142, 268, 16, 196, 60, 310];

let rankedModules, hueOf;

/** By path: a module keeps its colour when newer data come. */
const huesByPath = new Map();

derive(() => {
  rankedModules = modulesByWeight();
  // The first have colours of their own.
  for (const module of rankedModules.slice(0, HUES.length)) {
    const path = tree.modules[module];
    if (!huesByPath.has(path) && huesByPath.size < HUES.length) huesByPath.set(path, HUES[huesByPath.size]);
  }
  hueOf = new Map(rankedModules.map((module) => [module, huesByPath.get(tree.modules[module])])
    .filter(([, hue]) => hue !== undefined));
});

/** Modules by what was allocated in them. */
function modulesByWeight() {
  const weight = new Float64Array(tree.modules.length);
  for (let row = 0; row < rows.length; row++) {
    const value = rowValue(row, 0, 1, 0);
    const seen = new Set();
    for (let i = stacks.starts[row]; i < stacks.starts[row + 1]; i++) {
      seen.add(functionOf(stacks.calls[i])[2]);
    }
    for (const module of seen) weight[module] += value;
  }
  return [...weight.keys()].filter((module) => tree.modules[module] !== '' && weight[module] > 0)
    .sort((a, b) => weight[b] - weight[a]);
}

/** The same name has the same shade, wherever it stands. */
function shade(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return ((hash >>> 8) % 1000) / 1000;
}

function frameColour(call, isDark) {
  const [name, , module] = functionOf(call);
  const hue = hueOf.get(module), by = shade(name);
  if (hue === undefined) return isDark ? `hsl(220 6% ${27 + 6 * by}%)` : `hsl(220 8% ${82 + 6 * by}%)`;
  return isDark ? `hsl(${hue + 22 * by - 11} ${34 + 12 * by}% ${26 + 12 * by}%)`
    : `hsl(${hue + 22 * by - 11} ${50 + 14 * by}% ${71 + 12 * by}%)`;
}

/** Of what is no function, but why a stack is cut. */
function markColour(isDark) {
  return isDark ? 'hsl(48 30% 34%)' : 'hsl(48 62% 80%)';
}

/** Red grew, blue shrank; the stronger, the more of it is new or gone. */
function changeColour(now, before, isDark) {
  const share = (now - before) / Math.max(now, before, 1e-9);
  const strength = Math.min(1, Math.abs(share));
  if (strength < 0.005) return isDark ? 'hsl(220 5% 30%)' : 'hsl(220 8% 87%)';
  const hue = share > 0 ? 8 : 214;
  return isDark ? `hsl(${hue} ${18 + 52 * strength}% ${30 + 10 * strength}%)`
    : `hsl(${hue} ${40 + 45 * strength}% ${88 - 22 * strength}%)`;
}

