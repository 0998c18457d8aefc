// Which page is shown: the part of the address behind `#`, so that a reload and a link keep it.

export interface Route {
  page: string;
  /** The rest of the path, decoded. */
  rest: string;
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/");
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  return { page: page || "elections", rest: rest.map(decode).join("/"), query: new URLSearchParams(query) };
}

/** The link to a page. The slashes of a name stay. */
export function link(page: string, rest = "", query: Record<string, string> = {}): string {
  const path = rest === "" ? page : `${page}/${rest.split("/").map(encodeURIComponent).join("/")}`;
  const wanted = Object.entries(query).filter(([, value]) => value !== "");
  return `#/${path}${wanted.length > 0 ? `?${new URLSearchParams(wanted)}` : ""}`;
}

class Router {
  route = $state<Route>(parse(typeof location === "undefined" ? "" : location.hash));

  constructor() {
    if (typeof addEventListener === "undefined") return;
    addEventListener("hashchange", () => {
      this.route = parse(location.hash);
    });
  }

  go(to: string): void {
    location.hash = to;
  }

  /** The same page with another query, without a new entry in the history. */
  replace(to: string): void {
    history.replaceState(null, "", to);
    this.route = parse(to);
  }
}

export const router = new Router();
