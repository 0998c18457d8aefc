// What is shown, as files.

import type { Run } from "./trace";

/** The run as lines, as `tenure lab run --trace json` writes it, with its head. */
export function exportTrace(run: Run): string {
  const lines = [{ event: "run", ...run.head }, ...run.events, { event: "result", ...run.result }];
  return `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`;
}

/** The picture with the colours that it has now. */
export function exportSvg(svg: SVGElement | null): string {
  if (!svg) return "";
  const copy = svg.cloneNode(true) as SVGElement;
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, at) => {
    const style = getComputedStyle(element);
    const target = to[at] as SVGElement;
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "text-anchor"]) {
      const value = style.getPropertyValue(name);
      if (value !== "" && !value.includes("url(")) target.setAttribute(name === "font" ? "style" : name, name === "font" ? `font:${value}` : value);
    }
    target.removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

export function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
