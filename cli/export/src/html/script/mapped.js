// Mapped memory of the whole session: who mapped it, for whom, and what is unusual of it.

function showMapped() {
  watch([], drawMapped);
}

function drawMapped() {
  const mapped = data.verdict && data.verdict.mapped;
  if (!mapped) return;
  byId('mapped-section').hidden = false;
  const head = ['Who', 'Still mapped', 'Mapped', 'Resident'].map((text) => make('th', { scope: 'col' }, text));
  const rows = mapped.places.map((place) => make('tr', {}, make('th', { scope: 'row' }, whoMapped(place),
    place.callers.length > 0 ? make('div.dim', {}, `from ${place.callers.join(' < ')}`) : ''),
  ...[place.live, place.mapped, place.resident].map((size) => make('td', {}, size === null ? '\u2013' : bytes(size)))));
  byId('mapped').replaceChildren(make('table.mappings', { 'aria-labelledby': 'mapped-title' },
    make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows)));
  if (mapped.more > 0) byId('mapped').append(make('p.dim', {}, `${mapped.more} more places`));
  if (mapped.unhooked.length > 0) byId('mapped').append(make('p', {}, unhookedText(mapped)));
}

/** The allocator, runtime or thread that it was mapped for is named first: the place is its trigger. */
function whoMapped({ place, by, kinds }) {
  const kind = kinds.length > 0 ? ` (${kinds.join(', ')})` : '';
  return make('span', {}, by === '' ? '' : `${by}, for `, make('strong', {}, place), kind);
}

function unhookedText({ unhooked, compared_ms: at }) {
  const when = at === null ? '' : ` at ${duration(at)} (the last look before its end)`;
  return `Mapped by no hooked function${when}: ${unhooked.map(([kind, size]) => `${bytes(size)} ${kind}`).join(', ')}.`;
}
