import { expect, test } from "vitest";
import { bytes, count, countdown, duration, percent, plural } from "../src/lib/format";
import { asText, hexDump, prefixEnd, shown, utf8 } from "../src/lib/bytes";
import { link, parse } from "../src/lib/router.svelte";

test("durations have at most two units", () => {
  const cases: [number, string][] = [
    [0, "0 ms"], [4.4, "4 ms"], [64, "0.06 s"], [999, "1.00 s"], [7400, "7.4 s"], [59_999, "59 s"], [60_000, "1 min"],
    [192_000, "3 min 12 s"], [3_600_000, "1 h"], [4_320_000, "1 h 12 min"], [11 * 86_400_000, "11 d"],
    [6 * 86_400_000 + 4 * 3_600_000, "6 d 4 h"], [-5, "0 ms"], [Number.NaN, "—"],
  ];
  for (const [ms, text] of cases) expect(duration(ms), String(ms)).toBe(text);
  expect(countdown(9950)).toBe("9.9 s");
  expect(countdown(61_000)).toBe("1 min 1 s");
});

test("numbers are grouped, bytes have units, and no share is rounded to perfection", () => {
  expect(count(18402)).toBe("18,402");
  expect(count(999)).toBe("999");
  expect(bytes(1536)).toBe("1.5 KiB");
  expect(bytes(20)).toBe("20 B");
  expect(percent(0.99987)).toBe("99.99 %");
  expect(percent(0.9999999)).toBe("99.9999 %");
  expect(percent(1)).toBe("100 %");
  expect(plural(1, "change")).toBe("1 change");
  expect(plural(2, "entry", "entries")).toBe("2 entries");
});

test("bytes are text where they can be", () => {
  expect(asText(utf8("grün\n"))).toBe("grün\n");
  expect(asText(new Uint8Array([0xff, 0x41]))).toBeUndefined();
  expect(asText(new Uint8Array([0x00, 0x41]))).toBeUndefined();
  expect(shown(new Uint8Array([0xff, 0x41]))).toBe("\\xffA");
  expect(hexDump(utf8("tenure"))).toBe(`000000  74 65 6e 75 72 65${" ".repeat(30)}  tenure`);
  expect(prefixEnd(utf8("a/"))).toEqual(utf8("a0"));
  expect(prefixEnd(new Uint8Array([0x61, 0xff]))).toEqual(utf8("b"));
  expect(prefixEnd(new Uint8Array([]))).toEqual(new Uint8Array([0]));
});

test("addresses keep names with slashes and odd letters", () => {
  for (const name of ["billing/invoice-run", "a b/ü?#%", "plain"]) {
    expect(parse(link("election", name)), name).toMatchObject({ page: "election", rest: name });
  }
  expect(parse("").page).toBe("elections");
  expect(parse("#/keys/a%2").rest).toBe("a%2");
  expect(parse(link("elections", "", { prefix: "b/", state: "" })).query.get("prefix")).toBe("b/");
});
