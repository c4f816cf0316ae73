/**
 * A pool of skill processes: several for each bundle. Each handles one request at a time, and an idle process is ended.
 */
import type { ChildRequest } from './protocol.ts';
import { SkillProcess, type SkillProcessOptions } from './skill-process.ts';

/** Turns are short and share a process; an action takes long and has a process to itself. */
export type Lane = 'turn' | 'action';

export interface SkillPoolOptions {
  readonly mostProcesses?: Readonly<Record<Lane, number>>;
  readonly idleMs?: number;
  readonly spawn: (bundle: string, codeHash: string) => SkillProcessOptions;
}

interface LaneOfHash {
  readonly idle: { readonly process: SkillProcess; readonly timer: NodeJS.Timeout }[];
  alive: number;
  readonly queue: (() => void)[];
}

const MOST_PROCESSES: Readonly<Record<Lane, number>> = { turn: 2, action: 8 };
const IDLE_MS = 60_000;

export class SkillPool {
  readonly #options: SkillPoolOptions;
  readonly #lanes = new Map<string, LaneOfHash>();
  readonly #processes = new Set<SkillProcess>();

  constructor(options: SkillPoolOptions) {
    this.#options = options;
  }

  /** Waits for a process, lets it do the request, keeps it for the next one if it lives. */
  async run(
    lane: Lane,
    code: { readonly bundle: string; readonly codeHash: string },
    request: ChildRequest,
    limitMs: number | null,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const key = `${lane}/${code.codeHash}`;
    const at = this.#lanes.get(key) ?? { idle: [], alive: 0, queue: [] };
    this.#lanes.set(key, at);
    const most = (this.#options.mostProcesses ?? MOST_PROCESSES)[lane];
    while (at.idle.length === 0 && at.alive >= most) await this.#turnIn(at, signal);
    const process = this.#take(at, code);
    try {
      return await process.request(request, limitMs, signal);
    } finally {
      this.#giveBack(at, process);
    }
  }

  /** Ends every process. */
  close(): void {
    for (const { idle } of this.#lanes.values()) for (const { timer } of idle) clearTimeout(timer);
    for (const process of this.#processes) process.end('the worker ends', false);
  }

  #take(at: LaneOfHash, { bundle, codeHash }: { readonly bundle: string; readonly codeHash: string }): SkillProcess {
    for (let found = at.idle.pop(); found !== undefined; found = at.idle.pop()) {
      clearTimeout(found.timer);
      if (!found.process.isGone) return found.process;
      this.#forget(at, found.process);
    }
    const process = new SkillProcess(this.#options.spawn(bundle, codeHash));
    at.alive += 1;
    this.#processes.add(process);
    return process;
  }

  #giveBack(at: LaneOfHash, process: SkillProcess): void {
    if (process.isGone) this.#forget(at, process);
    else {
      const timer = setTimeout(() => {
        const index = at.idle.findIndex((one) => one.process === process);
        if (index < 0) return;
        at.idle.splice(index, 1);
        process.end('it was idle', false);
        this.#forget(at, process);
      }, this.#options.idleMs ?? IDLE_MS);
      timer.unref();
      at.idle.push({ process, timer });
    }
    at.queue.shift()?.();
  }

  #forget(at: LaneOfHash, process: SkillProcess): void {
    at.alive -= 1;
    this.#processes.delete(process);
  }

  #turnIn(at: LaneOfHash, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const proceed = (): void => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        at.queue.splice(at.queue.indexOf(proceed), 1);
        reject(signal!.reason as Error);
      };
      if (signal?.aborted === true) return reject(signal.reason as Error);
      signal?.addEventListener('abort', leave, { once: true });
      at.queue.push(proceed);
    });
  }
}
