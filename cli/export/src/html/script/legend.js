// What the colours of the graph mean.

function showLegend() {
  watch([], drawLegend);
}

function drawLegend() {
  const parent = byId('legend');
  parent.replaceChildren();
  if (isDiff) {
    parent.append(...['grew', 'unchanged', 'shrank'].map((name) => make(`span.key.${name}`, {}, name)));
    return;
  }
  for (const module of rankedModules.filter((each) => hueOf.has(each))) {
    const swatch = make('i.swatch');
    swatch.style.background = `hsl(${hueOf.get(module)} 60% 62%)`;
    parent.append(make('span.key', { title: tree.modules[module] }, swatch, base(tree.modules[module])));
  }
  for (const [number, why] of tree.marks) {
    parent.append(make('span.key', {}, make('i.swatch.mark'), `${tree.functions[number][0]}: stacks cut ${why}`));
  }
}

