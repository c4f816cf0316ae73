/**
 * Waits for sessions, whose work may take hours. A request waits for a limited time; the next one with the same name
 * joins the same work. A session has only a few updates at the same time, so no request repeats one that is open.
 */
import { createRequestError } from './problems.ts';

export interface SessionWaits {
  /**
   * @param name  names the work, which is begun only if none with the name is open
   * @returns null if the work takes longer, or the client has gone; it continues
   */
  join<T>(name: string, work: () => Promise<T>, wait: Wait): Promise<{ readonly value: T } | null>;
}

export interface Wait {
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

export function createSessionWaits(most: number): SessionWaits {
  const open = new Map<string, Promise<unknown>>();
  return {
    async join<T>(name: string, work: () => Promise<T>, { waitMs, signal }: Wait) {
      let pending = open.get(name) as Promise<T> | undefined;
      if (pending === undefined) {
        if (open.size >= most)
          throw createRequestError(
            'api/too-many-requests',
            `the service waits for ${most} answers of sessions already`,
          );
        pending = work();
        open.set(name, pending);
        const forget = (): void => void open.delete(name);
        // A failure that no request waits for is found by the next request.
        pending.then(forget, forget);
      }
      return await waitFor(pending, { waitMs, signal });
    },
  };
}

async function waitFor<T>(pending: Promise<T>, { waitMs, signal }: Wait): Promise<{ readonly value: T } | null> {
  const end = new AbortController();
  const late = new Promise<null>((resolve) => {
    const timer = setTimeout(() => resolve(null), waitMs);
    const settle = (): void => {
      clearTimeout(timer);
      resolve(null);
    };
    signal.addEventListener('abort', settle, { once: true, signal: end.signal });
    end.signal.addEventListener('abort', settle, { once: true });
    if (signal.aborted) settle();
  });
  try {
    return await Promise.race([pending.then((value) => ({ value })), late]);
  } finally {
    end.abort();
  }
}
