// Everything in its place.

function showToolbar() {
  const parent = byId('toolbar');
  const add = (label, name, options, also = {}) => {
    const press = choice(parent, label, options, (value) => update({ [name]: value, ...also }));
    watch([name], () => press(state[name]));
  };
  add('Direction', 'direction', [
    ['down', 'Top-down', 'from the outermost call to the allocation'],
    ['up', 'Bottom-up', 'from the allocation to its callers'],
  ], { path: [] });
  add('Shape', 'shape', [
    ['icicle', 'Icicle', 'the root is at the top'],
    ['flame', 'Flame', 'the root is at the bottom']]);
  if (isDiff) {
    add('Width', 'width', [
      ['change', 'Change', 'wide is what became different'],
      ['now', 'Now', 'wide is what is large now'],
      ['before', 'Before', 'wide is what was large before']], { path: [] });
  }
  const onPath = { also: { path: [] } };
  addSwitch(parent, 'lines', 'Lines', 'tell the lines of a function apart', onPath);
  addSwitch(parent, 'allocators', 'Allocators', 'show the calls inside malloc, new and the like, too', onPath);
  addSwitch(parent, 'interpreters', 'Interpreter', "show the interpreter's own calls between the functions that it runs, too",
    { ...onPath, isOffered: () => hasInterpreted });
  addSwitch(parent, 'full', 'Full names', 'show names of functions with their parameters and all template arguments',
    { isOffered: () => shorts.size > 0 });
  showFilters(parent);
}

function showThemes() {
  const press = choice(byId('themes'), 'Colours',
    [['auto', 'Auto', 'as the system has it'], ['light', 'Light'], ['dark', 'Dark']], (theme) => {
      document.documentElement.dataset.theme = theme;
      press(theme);
      paintGraph();
    });
  press('auto');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paintGraph);
  // Paper is white.
  for (const [event, isPrinting] of [['beforeprint', true], ['afterprint', false]]) {
    window.addEventListener(event, () => { graph.isPrinting = isPrinting; drawGraph(); });
  }
  matchMedia('print').addEventListener('change', drawGraph);
}

document.documentElement.classList.toggle('diff', isDiff);
Object.assign(state, linkedChoices());
showAbout();
showVerdict();
showTiles();
showHeadline();
showSearch();
showToolbar();
showLegend();
showGraph();
showSource();
showFlameText();
showWindowed();
showTimeline();
showTable();
showTableKeys();
showHistograms();
showMapped();
showThemes();
showHelp();
showLink();
if (isLive) showLive();
byId('window-clear').addEventListener('click', clearWindow);
performance.mark('drawn');
document.documentElement.dataset.ready = 'true';
