// How sure we are of a sum of samples: the same interval as in every other report of heapattach.

const Z = 1.959963984540054;

/** `floor`: the truth is at least what was seen. */
function interval(value, floor, variance, covariance, third, spread) {
  if (!(variance > 0)) return { value, low: value, high: value };
  const slope = covariance / variance;
  const steep = Math.max(covariance > 0 ? spread / covariance : 0, slope);
  const shift = (Z * Z - 1) / 6 * third / variance;
  const reach = (by) => Z * Math.sqrt(variance + (Z * by / 2) ** 2);
  const low = value - shift + Z * Z * slope / 2 - reach(slope);
  const high = value - shift + Z * Z * steep / 2 + reach(steep);
  return { value, low: Math.min(Math.max(low, floor), value), high: Math.max(high, value) };
}

/** Of the difference of two estimates that know nothing of each other. */
function difference(now, base) {
  const value = now.value - base.value;
  const low = value - Math.hypot(now.value - now.low, base.high - base.value);
  const high = value + Math.hypot(now.high - now.value, base.value - base.low);
  return { value, low, high };
}

function isExact(estimate) {
  return estimate.high - estimate.low <= 1e-4 * Math.abs(estimate.value);
}

function range(estimate, unit, write = quantity) {
  const [low, high] = [write(estimate.low, unit), write(estimate.high, unit)], at = low.lastIndexOf(' ');
  const isSame = at > 0 && high.endsWith(low.slice(at));
  return `${isSame ? low.slice(0, at) : low} \u2013 ${high}`;
}

/** Behind a number: its interval, if it has one. */
function error(estimate, unit, write) {
  return isExact(estimate) ? '' : ` (95 %: ${range(estimate, unit, write)})`;
}

/** Whether a change may as well be none. */
function isNoise(change) {
  return change.low <= 0 && change.high >= 0 && !isExact(change);
}

