// The JSON gateway of the member that the page came from. What the pages can, curl can.

/** Why a request failed, as the server says it; code 0 if no server answered. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly code: number,
    readonly status: number,
  ) {
    super(message);
  }

  get isUnreachable(): boolean {
    return this.status === 0;
  }
  /** No raft leader, or no majority: nothing can be decided or read as it is now. */
  get isWithoutQuorum(): boolean {
    return this.code === 14 || this.code === 4;
  }
  get isLoggedOut(): boolean {
    // What etcd says to a request without a token is no "unauthenticated".
    return this.status === 401 || this.message.endsWith("user name is empty");
  }
}

/** How long an answer may take before the member counts as unreachable. */
const PATIENCE_MS = 8000;
const TOKEN_KEY = "tenure-token";

/** Of a user who has logged in. It lives as long as the tab. */
export const token = {
  get: (): string | null => sessionStorage.getItem(TOKEN_KEY),
  set(value: string | null): void {
    if (value === null) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, value);
  },
};

function head(): Record<string, string> {
  const known = token.get();
  return { "content-type": "application/json", ...(known ? { authorization: known } : {}) };
}

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  try {
    const said = JSON.parse(text) as { message?: string; code?: number };
    return new ApiError(said.message ?? text, said.code ?? 2, response.status);
  } catch {
    return new ApiError(text.trim() || `HTTP status ${response.status}`, 2, response.status);
  }
}

type Listener = (error: ApiError | undefined, response: Response | undefined) => void;
const listeners = new Set<Listener>();

/** Tells of every answer and of every failure to get one. */
export function onAnswer(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(error: ApiError | undefined, response?: Response): void {
  for (const listener of listeners) listener(error, response);
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { cache: "no-store", ...init });
  } catch (cause) {
    if (init.signal?.aborted && init.signal.reason !== TIMEOUT) throw cause;
    const why = init.signal?.aborted ? "no answer in time" : "the member does not answer";
    const error = new ApiError(why, 0, 0);
    tell(error);
    throw error;
  }
  if (!response.ok) {
    const error = await failure(response);
    tell(error, response);
    throw error;
  }
  tell(undefined, response);
  return response;
}

const TIMEOUT = new DOMException("no answer in time", "TimeoutError");

function within(ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(TIMEOUT), ms);
  return controller.signal;
}

/** One object for one object. */
export async function call<T>(path: string, body: object = {}, patience = PATIENCE_MS): Promise<T> {
  const response = await send(`/v3/${path}`, {
    method: "POST",
    headers: head(),
    body: JSON.stringify(body),
    signal: within(patience),
  });
  return (await response.json()) as T;
}

/** What is no part of `/v3`. */
export async function get(path: string): Promise<Response> {
  return send(path, { signal: within(PATIENCE_MS) });
}

/** One object for a stream of lines, until the signal. Ends when the stream ends; throws what it ends with. */
export async function* lines<T>(path: string, body: object, signal: AbortSignal): AsyncGenerator<T> {
  const response = await send(`/v3/${path}`, { method: "POST", headers: head(), body: JSON.stringify(body), signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts.filter((line) => line !== "")) {
      const line = JSON.parse(part) as { result?: T; error?: { message?: string; grpc_code?: number; http_code?: number } };
      if (line.error) {
        throw new ApiError(line.error.message ?? "the stream failed", line.error.grpc_code ?? 2, line.error.http_code ?? 500);
      }
      if (line.result !== undefined) yield line.result;
    }
  }
}
