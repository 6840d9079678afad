// Figures as words. The pages' own figures are written by the server in the same way.
const NONE = "–";
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

// In a column: with the two decimals of its neighbours.
export const alignedDuration = (seconds) => (seconds >= 1 && seconds < 10 ? `${seconds.toFixed(2)} s` : duration(seconds));

export function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 0.01 && seconds > 0) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 1 && seconds > 0) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(2))} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const [days, hours] = [Math.floor(whole / 86400), Math.floor((whole % 86400) / 3600)];
  const [minutes, rest] = [Math.floor((whole % 3600) / 60), whole % 60];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} m` : `${minutes} m ${rest} s`;
}

// A place on the axis: 0:30, 12:00, 1:05:00.
export function elapsed(seconds) {
  const whole = Math.round(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  const tail = `${hours ? two(minutes) : minutes}:${two(whole % 60)}`;
  return hours ? `${hours}:${tail}` : tail;
}

export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (Math.abs(value) >= 1024 && index < units.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${Number(value.toPrecision(3))} ${units[index]}`;
}

export function usd(value) {
  if (!known(value)) return "no price";
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size > 0 && size < 0.00005) return `${sign}<$0.0001`;
  const digits = size > 0 && size < 0.99995 ? 4 : 2;
  return `${sign}$${size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

export function inUnit(value, unit) {
  if (!known(value)) return NONE;
  if (unit === "pct") return `${Math.round(value)} %`;
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  if (unit === "seconds") return duration(value);
  if (unit === "watts") return `${Math.round(value)} W`;
  if (unit === "mhz") return `${Math.round(value)} MHz`;
  return Number(value.toPrecision(4)).toLocaleString("en");
}

// Empty beyond two months: the date stays.
export function ago(seconds) {
  if (seconds < 60) return seconds >= 10 ? `${Math.floor(seconds)} s ago` : "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return seconds < 60 * 86400 ? `${Math.floor(seconds / 86400)} days ago` : "";
}
