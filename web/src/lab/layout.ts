// Where things stand on the stage.

import type { RunHead } from "./trace";
import { STORAGE } from "./world";

export interface Point {
  x: number;
  y: number;
}

export const WIDTH = 960;
export const HEIGHT = 440;
export const STORAGE_SIZE = { width: 216, height: 158 };

/** Contenders on the left and servers on the right of the storage; contenders alone on a circle around it. */
export function layout(head: Pick<RunHead, "processes" | "contenders">): Record<string, Point> {
  const contenders = head.processes.slice(0, head.contenders);
  const servers = head.processes.slice(head.contenders);
  const places: Record<string, Point> = {};
  const middle = { x: WIDTH / 2, y: HEIGHT / 2 };
  places[STORAGE] = middle;
  if (servers.length === 0) {
    contenders.forEach((name, at) => {
      // From the upper left on, so that no process stands where the storage's label is.
      const angle = Math.PI + (2 * Math.PI * (at + 0.5)) / contenders.length;
      places[name] = { x: middle.x + 300 * Math.cos(angle), y: middle.y + 168 * Math.sin(angle) };
    });
    return places;
  }
  const column = (names: string[], x: number, bow: number) => {
    names.forEach((name, at) => {
      const share = names.length === 1 ? 0.5 : at / (names.length - 1);
      places[name] = { x: x + bow * Math.sin(Math.PI * share), y: 58 + (HEIGHT - 116) * share };
    });
  };
  column(contenders, 206, -36);
  column(servers, WIDTH - 246, 52);
  return places;
}

/** A message's way: bowed, so that two directions and the storage do not cover each other. */
export function bow(from: Point, to: Point): Point {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const by = Math.min(42, length * 0.12);
  return { x: (from.x + to.x) / 2 + (dy / length) * by, y: (from.y + to.y) / 2 - (dx / length) * by };
}

/** A point of that way. */
export function along(from: Point, to: Point, share: number): Point {
  const over = bow(from, to);
  const rest = 1 - share;
  return {
    x: rest * rest * from.x + 2 * rest * share * over.x + share * share * to.x,
    y: rest * rest * from.y + 2 * rest * share * over.y + share * share * to.y,
  };
}
