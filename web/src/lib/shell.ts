// Commands to paste: words are quoted where a shell would take them apart.

const USUAL = "127.0.0.1:2379";

export function quoted(word: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command of ours; with the member's address if it is not the usual one. */
export function tenure(...words: string[]): string {
  const host = typeof location === "undefined" ? USUAL : location.host;
  const scheme = typeof location !== "undefined" && location.protocol === "https:" ? "https://" : "";
  const all = scheme === "" && (host === USUAL || host === "localhost:2379") ? words : [...words, "--endpoints", scheme + host];
  return ["tenure", ...all].map(quoted).join(" ");
}
