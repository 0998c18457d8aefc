// The time, for what ticks on the pages.

const TICK_MS = 250;

class Now {
  /** By the server's clock, as far as it can be told: times in histories are those of the raft leader. */
  ms = $state(Date.now());
  #offset = 0;

  constructor() {
    if (typeof window === "undefined") return;
    setInterval(() => {
      if (!document.hidden) this.ms = Date.now() + this.#offset;
    }, TICK_MS);
  }

  /** The server names whole seconds. A difference that could be rounding or the way of the answer is none. */
  hear(date: string | null): void {
    const server = date === null ? Number.NaN : Date.parse(date);
    if (Number.isNaN(server)) return;
    const difference = server + 500 - Date.now();
    this.#offset = Math.abs(difference) > 2000 ? difference : 0;
  }
}

export const now = new Now();
