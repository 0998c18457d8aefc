// Where everything lies on the tenure timeline. Pure: times and a width in, numbers out.

import { scaleTime } from "d3-scale";
import { duration } from "./format";
import { isFault, markOf, type EndMark, type Gap, type Led } from "./tenures";

export const AXIS_H = 28;
export const LED_H = 44;
export const LANE_H = 38;
export const FOOT_H = 22;
/** A gap in which nobody led is never narrower. */
export const GAP_PX_MIN = 4;
const BAR_PX_MIN = 2;
/** Letters of the numbers in bars. */
const DIGIT_PX = 7.2;

export interface Window {
  from: number;
  until: number;
}

export interface Bar {
  key: string;
  x: number;
  width: number;
  led: Led;
  label: string;
  mark: EndMark | undefined;
  fault: boolean;
  /** Where the leader gave no sign of life any more. */
  silentX: number | undefined;
}

export interface Wait {
  x: number;
  width: number;
  /** Whether it began in the window. */
  ring: boolean;
}

export interface Lane {
  identity: string;
  y: number;
  bars: Bar[];
  waits: Wait[];
}

export interface Band {
  x: number;
  width: number;
  gap: Gap;
  label: string;
  /** Empty where it would run into its neighbour. */
  labelX: number | undefined;
}

export interface Drop {
  x: number;
  fromY: number;
  toY: number;
}

export interface Waiting {
  identity: string;
  from: number;
  until: number;
}

export interface Layout {
  lanes: Lane[];
  led: Bar[];
  bands: Band[];
  drops: Drop[];
  ticks: { x: number; label: string }[];
  nowX: number;
  height: number;
}

export function layout(
  identities: readonly string[],
  list: readonly Led[],
  gaps: readonly Gap[],
  waiting: readonly Waiting[],
  view: Window,
  now: number,
  width: number,
): Layout {
  const scale = scaleTime().domain([view.from, view.until]).range([0, width]);
  const x = (ms: number) => scale(ms) as number;
  const clampX = (ms: number) => Math.min(width + 1, Math.max(-1, x(ms)));
  const visible = (from: number, until: number) => until >= view.from && from <= view.until;
  const bars = list.filter((one) => visible(one.from, one.until)).map((one): Bar => {
    const left = clampX(one.from);
    const wide = Math.max(clampX(one.until) - left, BAR_PX_MIN);
    const label = String(one.token);
    // The label stands where the bar can be seen.
    return {
      key: `${one.token}:${one.from}`,
      x: left,
      width: wide,
      led: one,
      label: wide > label.length * DIGIT_PX + 14 ? label : "",
      mark: x(one.until) <= width ? markOf(one.reason) : undefined,
      fault: isFault(one.reason),
      silentX: one.silentFrom === undefined ? undefined : Math.max(left, clampX(one.silentFrom)),
    };
  });
  const laneTop = AXIS_H + LED_H;
  const at = new Map(identities.map((identity, index) => [identity, laneTop + index * LANE_H]));
  const lanes = identities.map((identity): Lane => {
    const waits = waiting.filter((one) => one.identity === identity && visible(one.from, one.until));
    return {
      identity,
      y: at.get(identity) ?? laneTop,
      bars: bars.filter((bar) => bar.led.identity === identity),
      waits: waits.map((one) => {
        const left = clampX(one.from);
        return { x: left, width: Math.max(0, clampX(one.until) - left), ring: one.from >= view.from };
      }),
    };
  });
  const drops: Drop[] = [];
  for (const [index, one] of list.entries()) {
    const next = list[index + 1];
    if (!next || !visible(one.until, next.from) || next.identity === one.identity) continue;
    const fromY = at.get(one.identity);
    const toY = at.get(next.identity);
    if (fromY === undefined || toY === undefined || x(next.from) - x(one.until) > 8) continue;
    drops.push({ x: x(next.from), fromY: fromY + LANE_H / 2, toY: toY + LANE_H / 2 });
  }
  return {
    lanes,
    led: bars,
    bands: bandsOf(gaps.filter((gap) => visible(gap.from, gap.until)), clampX, width),
    drops,
    ticks: scale.ticks(Math.max(2, Math.floor(width / 110))).map((tick) => ({ x: x(tick.getTime()), label: tickLabel(tick, view) })),
    nowX: x(now),
    height: laneTop + identities.length * LANE_H + FOOT_H,
  };
}

function bandsOf(gaps: readonly Gap[], x: (ms: number) => number, width: number): Band[] {
  let taken = Number.NEGATIVE_INFINITY;
  return gaps.map((gap): Band => {
    const left = x(gap.from);
    const wide = Math.max(x(gap.until) - left, GAP_PX_MIN);
    const label = `${gap.frozen ? "frozen " : ""}${duration(gap.until - gap.from)}`;
    const half = (label.length * 6.2) / 2;
    const middle = Math.min(width - half, Math.max(half, left + wide / 2));
    const fits = middle - half > taken + 6;
    if (fits) taken = middle + half;
    return { x: left, width: wide, gap, label, labelX: fits ? middle : undefined };
  });
}

const two = (number: number) => String(number).padStart(2, "0");

export function tickLabel(tick: Date, view: Window): string {
  const span = view.until - view.from;
  const day = `${tick.getMonth() + 1}/${tick.getDate()}`;
  const time = `${two(tick.getHours())}:${two(tick.getMinutes())}`;
  if (span > 3 * 24 * 3_600_000) return day;
  if (tick.getHours() === 0 && tick.getMinutes() === 0 && tick.getSeconds() === 0) return day;
  return span < 4 * 60_000 ? `${time}:${two(tick.getSeconds())}` : time;
}

const SPAN_MIN = 2000;
const SPAN_MAX = 366 * 24 * 3_600_000;

/** Makes a window narrower or wider around a moment that stays where it is. */
export function zoom(view: Window, around: number, factor: number): Window {
  const span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, (view.until - view.from) * factor));
  const share = (around - view.from) / (view.until - view.from);
  const from = around - span * share;
  return { from, until: from + span };
}

export function pan(view: Window, ms: number): Window {
  return { from: view.from + ms, until: view.until + ms };
}

/** A window that ends a little behind now. */
export function following(span: number, now: number): Window {
  return { from: now - span * 0.94, until: now + span * 0.06 };
}

/** Where a card beside a bar stands: below it if there is room, else above, inside its panel in any case. */
export function cardPlace(
  bar: { x: number; y: number; width: number; height: number },
  card: { width: number; height: number },
  panel: { width: number; height: number },
): { x: number; y: number } {
  const gap = 10;
  const x = Math.min(Math.max(4, bar.x + bar.width / 2 - card.width / 2), Math.max(4, panel.width - card.width - 4));
  const below = bar.y + bar.height + gap;
  if (below + card.height <= panel.height) return { x, y: below };
  const above = bar.y - gap - card.height;
  // A panel that is too low for both lets the card hang out of it: it must not lie on the bar.
  return { x, y: above >= 0 ? above : below };
}
