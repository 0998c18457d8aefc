// Bytes on the wire are base64; on the pages they are text where they can be.

const encoder = new TextEncoder();

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

export function encode(text: string): string {
  return toBase64(encoder.encode(text));
}

/** Text of bytes, or nothing if they are none. */
export function asText(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    // Control characters make no text that can be read.
    // eslint-disable-next-line no-control-regex
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Bytes for people: as text, or escaped. */
export function shown(bytes: Uint8Array): string {
  return asText(bytes) ?? Array.from(bytes, escaped).join("");
}

function escaped(byte: number): string {
  const printable = byte >= 0x20 && byte < 0x7f && byte !== 0x5c;
  return printable ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
}

/** Sixteen bytes a line with their offset and their text. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = Array.from(bytes.subarray(at, at + 16));
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/** The first key behind all that begin with a prefix. */
export function prefixEnd(prefix: Uint8Array): Uint8Array {
  const end = Uint8Array.from(prefix);
  for (let at = end.length - 1; at >= 0; at -= 1) {
    const byte = end[at] ?? 0;
    if (byte < 0xff) {
      end[at] = byte + 1;
      return end.subarray(0, at + 1);
    }
  }
  return new Uint8Array([0]);
}

export const utf8 = (text: string): Uint8Array => encoder.encode(text);
