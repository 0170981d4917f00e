// How sure we are of a sum of samples: the same interval as in every other report of heapattach.

const Z = 1.959963984540054;

const Z_ALONE = 1.8;
/** An upper end that is so many times the value is none. */
const OPEN = 20;

/** `floor`: the truth is at least what was seen; `unseen`: so much of which no sample was need be there. */
function interval(value, floor, variance, covariance, third, spread, unseen, isOpen) {
  if (!(variance > 0)) return { value, low: value, high: value + unseen };
  const slope = covariance / variance;
  const steep = Math.max(covariance > 0 ? spread / covariance : 0, slope);
  const alike = variance ** 3 / covariance ** 2;
  const z = isOpen && alike > 5 ? Z + (Z_ALONE - Z) * Math.min((alike - 5) / 5, 1) : Z;
  const shift = (by) => (by * by - 1) / 6 * third / variance;
  const reach = (by, z) => z * Math.sqrt(variance + (z * by / 2) ** 2);
  const low = value - shift(z) + z * z * slope / 2 - reach(slope, z);
  const high = value - shift(Z) + Z * Z * steep / 2 + reach(steep, Z);
  return {
    value,
    low: Math.min(Math.max(low, floor), value),
    high: value + Math.hypot(Math.max(high - value, 0), unseen),
  };
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
  if (estimate.value > 0 && estimate.high > OPEN * estimate.value) return `at least ${write(estimate.low, unit)}`;
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

