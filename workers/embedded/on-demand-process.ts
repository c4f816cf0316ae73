/** A child process that runs only while it is used. */
import type { RestartingProcess } from './restarting-process.ts';

export interface OnDemandOptions {
  readonly start: () => RestartingProcess;
  /** Without a use for this long, the process ends. */
  readonly idleLimitMs: number;
  /** The time from SIGTERM to SIGKILL. */
  readonly graceMs: number;
  /** Whether a use lasts longer than its call. */
  readonly isBusy?: () => boolean;
  /** Called when the process is about to end. */
  readonly onStop: () => void;
}

export interface OnDemandProcess {
  /** Starts the process if it does not run, and postpones its end. */
  use(): RestartingProcess;
  /** Postpones the end of the process if it runs. */
  postpone(): void;
  /** Null while it does not run. */
  pid(): number | null;
  stop(): Promise<void>;
}

export function createOnDemandProcess(options: OnDemandOptions): OnDemandProcess {
  const { start, idleLimitMs, graceMs, isBusy = () => false, onStop } = options;
  let running: RestartingProcess | null = null;
  let idle: NodeJS.Timeout | undefined;

  const stop = async (): Promise<void> => {
    clearTimeout(idle);
    const ending = running;
    running = null;
    onStop();
    await ending?.stop(graceMs);
  };

  const postpone = (): void => {
    clearTimeout(idle);
    if (running !== null) idle = setTimeout(() => (isBusy() ? postpone() : void stop()), idleLimitMs).unref();
  };

  return {
    use() {
      running ??= start();
      postpone();
      return running;
    },
    postpone,
    pid: () => running?.pid() ?? null,
    stop,
  };
}
