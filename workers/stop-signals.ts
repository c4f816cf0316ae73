/** Signals that ask a worker to end. It listens before it starts anything, so a signal never kills it without its clean-up. */
import type { Log } from './log.ts';

/** The first SIGTERM or SIGINT aborts the result and is logged; the reason is an `Error`. */
export function stopOnSignals(log: Log): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (stop.signal.aborted) return;
      log('info', `${signal}: stopping; VMs keep running, and the next worker of this host takes their stages over`);
      stop.abort(new Error(signal));
    });
  return stop.signal;
}

/** The result of `step`. @throws the reason of `stop` if it aborts first; the result of the step is then dropped */
export async function rejectOnStop<T>(stop: AbortSignal, step: Promise<T>): Promise<T> {
  // After an abort this function does not read the failure of the step.
  step.catch(() => undefined);
  stop.throwIfAborted();
  let onStop: () => void = () => undefined;
  const stopped = new Promise<never>((_, reject) => {
    onStop = () => reject(stop.reason as Error);
    stop.addEventListener('abort', onStop);
  });
  try {
    return await Promise.race([step, stopped]);
  } finally {
    stop.removeEventListener('abort', onStop);
  }
}
