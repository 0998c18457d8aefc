// Times, durations and sizes as they are written on the pages.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration in at most two units: `0.06 s`, `7.4 s`, `3 min 12 s`, `6 d 4 h`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "—";
  const length = Math.max(0, ms);
  if (length < 10) return `${Math.round(length)} ms`;
  if (length < SECOND) return `${(length / SECOND).toFixed(2)} s`;
  if (length < 10 * SECOND) return `${(length / SECOND).toFixed(1)} s`;
  if (length < MINUTE) return `${Math.floor(length / SECOND)} s`;
  const two = (large: number, largeName: string, small: number, smallName: string) => {
    const whole = Math.floor(length / large);
    const rest = Math.floor((length - whole * large) / small);
    return rest > 0 ? `${whole} ${largeName} ${rest} ${smallName}` : `${whole} ${largeName}`;
  };
  if (length < HOUR) return two(MINUTE, "min", SECOND, "s");
  if (length < DAY) return two(HOUR, "h", MINUTE, "min");
  return two(DAY, "d", HOUR, "h");
}

/** A duration that ticks: seconds with one digit below a minute, so that its width does not jump. */
export function countdown(ms: number): string {
  const left = Math.max(0, ms);
  return left < MINUTE ? `${(left / SECOND).toFixed(1)} s` : duration(left);
}

const two = (number: number) => String(number).padStart(2, "0");

/** The time of day. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The time of day, or with the date if that is another one than today's. */
export function moment(ms: number, now: number): string {
  const at = new Date(ms);
  const today = new Date(now);
  const sameDay = at.toDateString() === today.toDateString();
  return sameDay ? clock(ms) : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

/** A whole number with separators between thousands. */
export function count(number: number): string {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** Bytes with a unit. */
export function bytes(number: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = number;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** A share of a whole in percent, never rounded to a perfection that was not reached. */
export function percent(share: number): string {
  if (share >= 1) return "100 %";
  for (const digits of [1, 2, 3, 4]) {
    const text = (share * 100).toFixed(digits);
    if (Number(text) < 100) return `${text} %`;
  }
  return "99.9999 %";
}

/** `1 change`, `2 changes`. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
