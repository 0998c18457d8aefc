// Asking again and again, at a modest rate, and not at all while the page is hidden.

/** Begins at once and answers how to end it. `again` asks now. */
export function poll(ask: () => Promise<void>, everyMs: number): { stop: () => void; again: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asking = false;
  let wanted = false;
  let stopped = false;
  const round = async () => {
    clearTimeout(timer);
    if (stopped) return;
    if (asking) {
      wanted = true;
      return;
    }
    asking = true;
    try {
      await ask();
    } catch {
      // The page has been told; the next round asks again.
    }
    asking = false;
    if (stopped) return;
    timer = setTimeout(() => void round(), wanted ? 0 : document.hidden ? everyMs * 10 : everyMs);
    wanted = false;
  };
  const seen = () => {
    if (!document.hidden) void round();
  };
  document.addEventListener("visibilitychange", seen);
  void round();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
    again: () => void round(),
  };
}
