/**
 * The places of store files below the state folder, and the shape of I/O failures. `run-folder.ts` has the places
 * within a run's folder.
 */
import { closeSync, existsSync, fsync, mkdirSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { keepStateFormat } from '../state-format.ts';

const sync = promisify(fsync);
const MAX_KNOWN_FOLDERS = 10_000;

/** Where `set-aside` puts damaged runs. */
export function damagedDir(stateDir: string): string {
  return join(stateDir, 'damaged');
}

export function artifactsDir(stateDir: string): string {
  return join(stateDir, 'artifacts');
}

/** A new name is durable only when its folder is. */
export async function syncDir(path: string): Promise<void> {
  const fd = openSync(path, 'r');
  try {
    await sync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes folders whose names survive a power cut. Asks the disk once a folder; a store keeps one for its life. */
export class DurableFolders {
  readonly #root: string;
  readonly #known = new Set<string>();
  /** Waits for the disk that are under way, by folder: callers at once share them. */
  readonly #settling = new Map<string, Promise<void>>();
  #hasNumber = false;

  constructor(stateDir: string) {
    this.#root = stateDir;
  }

  /** Before anything is put into the state folder. @throws CodedError `host/state-format` */
  keepFormat(): void {
    if (!this.#hasNumber || !existsSync(this.#root)) keepStateFormat(this.#root);
    this.#hasNumber = true;
  }

  /** @throws CodedError `host/state-format` */
  async make(dir: string): Promise<void> {
    this.makeNow(dir);
    await this.settle(dir);
  }

  /** Waits until the names of a made folder, and of those above it, survive a power cut. */
  async settle(dir: string): Promise<void> {
    if (dir === this.#root || this.#known.has(dir)) return;
    const underWay = this.#settling.get(dir);
    if (underWay !== undefined) return await underWay;
    const settled = this.#settleNew(dir).finally(() => this.#settling.delete(dir));
    this.#settling.set(dir, settled);
    await settled;
  }

  /** Makes folders whose names a power cut may take before `settle`. @throws CodedError `host/state-format` */
  makeNow(dir: string): void {
    this.keepFormat();
    // Also for a known folder, because prune may have removed it.
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  async #settleNew(dir: string): Promise<void> {
    const parent = dirname(dir);
    // The order of these waits does not matter: a name survives if the names above it do.
    await Promise.all([this.settle(parent), syncDir(parent)]);
    // Forgetting costs one more sync; remembering every run of a long life costs memory.
    if (this.#known.size >= MAX_KNOWN_FOLDERS) this.#known.clear();
    this.#known.add(dir);
  }
}

/** Converts the failure of a system call to a coded error; coded errors pass through. */
export function createStoreFailure(doing: string, path: string, error: unknown): CodedError {
  if (error instanceof CodedError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new CodedError('store/io', `${doing} ${path}: ${reason}`, { cause: error });
}
