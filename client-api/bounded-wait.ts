/** Waits that a timer or a caller can end, also if the awaited work ignores both. */

/** @throws the reason of the signal */
export function pause(timeMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- the caller chose the reason
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, timeMs);
    if (signal?.aborted === true) return stop();
    signal?.addEventListener('abort', stop, { once: true });
  });
}

/**
 * @param onTimeout  makes the error of a wait that takes longer than `timeMs`
 * @throws the reason of the signal, or the error of the work
 */
export async function waitWithin<T>(
  work: Promise<T>,
  { timeMs, signal, onTimeout }: { timeMs: number; signal: AbortSignal | undefined; onTimeout: () => Error },
): Promise<T> {
  const done = new AbortController();
  const ended = signal === undefined ? done.signal : AbortSignal.any([signal, done.signal]);
  // Work that fails after the wait is over has no further reader.
  work.catch(() => undefined);
  try {
    return await Promise.race([
      work,
      pause(timeMs, ended).then(() => {
        throw onTimeout();
      }),
    ]);
  } finally {
    done.abort();
  }
}
