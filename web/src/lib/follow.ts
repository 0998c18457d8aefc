// The live feed of elections: resumed by its revision whenever it ends.

import { ApiError, lines } from "./api";
import { num, type FollowNews } from "./wire";

const PAUSE_MS = 1000;

/** Tells of news under a prefix until it is stopped. The lists themselves are asked for by the page. */
export function follow(prefix: () => string, tell: (news: FollowNews) => void): { stop: () => void; restart: () => void } {
  let stopped = false;
  let controller = new AbortController();
  let revision = 0;
  const run = async () => {
    while (!stopped) {
      controller = new AbortController();
      const request = { prefix: prefix(), after_revision: String(revision), without_list: true };
      try {
        for await (const news of lines<FollowNews>("tenure/elections/follow", request, controller.signal)) {
          if (stopped || controller.signal.aborted) break;
          revision = num(news.revision);
          tell(news);
        }
      } catch (cause) {
        // A server without the feed: the page asks by itself.
        if (cause instanceof ApiError && (cause.status === 404 || cause.code === 12)) return;
      }
      if (!stopped && !controller.signal.aborted) await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  };
  void run();
  return {
    stop() {
      stopped = true;
      controller.abort();
    },
    restart() {
      revision = 0;
      controller.abort();
    },
  };
}
