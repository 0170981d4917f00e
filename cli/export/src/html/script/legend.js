// What the colours of the graph mean.

function showLegend() {
  const parent = byId('legend');
  if (isDiff) {
    parent.append(...['grew', 'unchanged', 'shrank'].map((name) => make(`span.key.${name}`, {}, name)));
    return;
  }
  for (const module of rankedModules.slice(0, HUES.length)) {
    const swatch = make('i.swatch');
    swatch.style.background = `hsl(${hueOf.get(module)} 60% 62%)`;
    parent.append(make('span.key', { title: tree.modules[module] }, swatch, base(tree.modules[module])));
  }
  for (const [number, why] of tree.marks) {
    parent.append(make('span.key', {}, make('i.swatch.mark'), `${tree.functions[number][0]}: stacks cut ${why}`));
  }
}

