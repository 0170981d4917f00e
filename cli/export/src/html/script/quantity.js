// Numbers as people read them.

const MINUS = '\u2212';
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function digits(value) {
  if (value >= 99.95 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(value >= 9.995 ? 1 : 2);
}

function grouped(whole) {
  return whole.toFixed(0).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

function bytes(value) {
  let size = Math.abs(value), unit = 0;
  while (size >= 999.5 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  if (unit === 0) size = Math.round(size);
  return `${value < 0 ? MINUS : ''}${digits(size)} ${UNITS[unit]}`;
}

function count(value) {
  const size = Math.abs(value), sign = value < 0 ? MINUS : '';
  if (size < 1e6) return sign + grouped(Math.round(size));
  const [scale, name] = size < 1e9 ? [1e6, 'M'] : size < 1e12 ? [1e9, 'G'] : [1e12, 'T'];
  return `${sign}${digits(size / scale)} ${name}`;
}

function quantity(value, unit) {
  return unit === 0 ? bytes(value) : count(value);
}

/** With a sign even if it is more. */
function signed(value, unit) {
  return (value > 0 ? '+' : '') + quantity(value, unit);
}

function percent(part, whole) {
  if (!(whole > 0)) return '';
  const share = 100 * part / whole;
  if (share !== 0 && Math.abs(share) < 0.1) return '< 0.1 %';
  return `${share.toFixed(Math.abs(share) < 10 ? 1 : 0)} %`;
}

function duration(ms) {
  if (ms < 1000) return `${digits(ms)} ms`;
  if (ms < 120_000) return `${digits(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h > 0 ? `${grouped(h)} h ${m} min` : `${m} min ${s} s`;
}

/** On the axis of time. */
function clock(ms, step) {
  if (step < 1000) return `${(ms / 1000).toFixed(step < 100 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const two = (n) => String(n).padStart(2, '0');
  if (seconds < 60 && step < 60_000) return `${seconds} s`;
  const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60;
  return h > 0 ? `${h}:${two(m)}:${two(seconds % 60)}` : `${m}:${two(seconds % 60)}`;
}

/** Round numbers that divide an axis in few parts; those of bytes are powers of 2. */
function ticks(top, parts, base) {
  if (!(top > 0)) return [0];
  const rough = top / parts;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const steps = base === 10 ? [1, 2, 5, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
  const step = steps.find((n) => n * power >= rough) * power;
  const all = [];
  for (let at = 0; at <= top * 1.0001; at += step) all.push(at);
  return all;
}

