// Keys as a tree, and what changed between two values. Pure.

export interface Folder {
  kind: "folder";
  name: string;
  prefix: string;
  count: number;
}
export interface Leaf<T> {
  kind: "key";
  name: string;
  item: T;
}

/** The entries right below a prefix: folders by `/`, then keys, each in their order. */
export function below<T extends { text: string }>(keys: readonly T[], prefix: string): (Folder | Leaf<T>)[] {
  const folders = new Map<string, Folder>();
  const leaves: Leaf<T>[] = [];
  for (const item of keys) {
    if (!item.text.startsWith(prefix)) continue;
    const rest = item.text.slice(prefix.length);
    // A slash at the begin is part of the first folder's name.
    const at = rest.indexOf("/", 1);
    if (at < 0) {
      leaves.push({ kind: "key", name: rest, item });
      continue;
    }
    const name = rest.slice(0, at + 1);
    const known = folders.get(name);
    if (known) known.count += 1;
    else folders.set(name, { kind: "folder", name, prefix: prefix + name, count: 1 });
  }
  return [...folders.values(), ...leaves];
}

export interface DiffLine {
  kind: "same" | "gone" | "new";
  text: string;
}

const LINES_MAX = 400;

/** Lines that went and came, by the longest that both have in common. */
export function diff(before: string, after: string): DiffLine[] {
  const a = before.split("\n").slice(0, LINES_MAX);
  const b = after.split("\n").slice(0, LINES_MAX);
  const table: number[][] = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  const at = (i: number, j: number) => table[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i]![j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "same", text: a[i]! });
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: "gone", text: a[i]! });
      i += 1;
    } else {
      lines.push({ kind: "new", text: b[j]! });
      j += 1;
    }
  }
  return lines;
}

/** JSON with two blanks, or nothing if it is none. Only objects and lists count: a number is text as well. */
export function pretty(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : undefined;
  } catch {
    return undefined;
  }
}
