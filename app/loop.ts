/** A loop that looks at something again and again, until it is closed. */

export interface Loop {
  /** Looks at once, after the shortest pause. During a look, another one follows. */
  wake(): void;
  /** Ends when the look in progress has ended. */
  close(): Promise<void>;
}

export interface LoopOptions {
  /** Never rejects. @returns the pause until the next look */
  readonly scan: (signal: AbortSignal) => Promise<number>;
  /** A call of `wake` does not make a pause shorter than this. */
  readonly leastMs: number;
  /**
   * The part of a CPU that looks may take, at most: after a look that took a second of it, 0.1 makes a pause of at least 9 s.
   */
  readonly mostBusy?: number;
  /** Another clock is for tests. */
  readonly readClocks?: () => Clocks;
}

export interface Clocks {
  readonly wallMs: number;
  /** The CPU time of the process. */
  readonly cpuMs: number;
}

export function startLoop({ scan, leastMs, mostBusy = 1, readClocks = readOwnClocks }: LoopOptions): Loop {
  const ending = new AbortController();
  let isWoken = false;
  let endPause: (() => void) | null = null;
  const pause = async (pauseMs: number, canWake: boolean): Promise<void> => {
    if (ending.signal.aborted || pauseMs <= 0 || (canWake && isWoken)) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        ending.signal.removeEventListener('abort', end);
        endPause = null;
        resolve();
      };
      const timer = setTimeout(end, pauseMs);
      ending.signal.addEventListener('abort', end);
      if (canWake) endPause = end;
    });
  };
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      isWoken = false;
      const began = readClocks();
      const pauseMs = await scan(ending.signal);
      const shortest = Math.max(leastMs, measureWorkMs(began, readClocks()) * (1 / mostBusy - 1));
      await pause(shortest, false);
      await pause(pauseMs - shortest, true);
    }
  };
  const running = run();
  return {
    wake() {
      isWoken = true;
      endPause?.();
    },
    async close() {
      ending.abort();
      await running;
    },
  };
}

function readOwnClocks(): Clocks {
  const { user, system } = process.cpuUsage();
  return { wallMs: performance.now(), cpuMs: (user + system) / 1_000 };
}

/**
 * On a busy machine a look waits for a CPU most of its time, and a pause by its duration would grow to minutes. The CPU time
 * includes other work of the process, so that a look counts with at most its duration.
 */
function measureWorkMs(began: Clocks, ended: Clocks): number {
  return Math.min(ended.cpuMs - began.cpuMs, ended.wallMs - began.wallMs);
}

/** Lets one caller after the other do its work. */
export function createTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return async (work) => {
    const turn = last.then(work, work);
    last = turn.catch(() => undefined);
    return await turn;
  };
}
