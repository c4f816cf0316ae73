/** Waiting for a file to change, in whichever process. */
import { watch, type FSWatcher } from 'node:fs';

/**
 * inotify is prompt but not reliable: watches run out, network file systems send no events, the file may not exist yet.
 */
const POLL_MS = 500;

export class FileWake {
  readonly #path: string;
  #watcher: FSWatcher | null = null;
  #changed = false;
  #notify: (() => void) | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** Call before reading: a change after this call ends the next `wait` at once. */
  arm(): void {
    this.#changed = false;
    if (this.#watcher !== null) return;
    try {
      const watcher = watch(this.#path, { persistent: false }, () => this.#wake());
      watcher.on('error', () => this.#unwatch());
      this.#watcher = watcher;
    } catch {
      this.#watcher = null;
    }
  }

  /** Settles on a change, after the poll interval, or on abort. The caller checks the file itself. */
  wait(signal: AbortSignal): Promise<void> {
    if (this.#changed || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(finish, POLL_MS);
      signal.addEventListener('abort', finish, { once: true });
      this.#notify = finish;
      function finish(): void {
        clearTimeout(timer);
        signal.removeEventListener('abort', finish);
        resolve();
      }
    });
  }

  close(): void {
    this.#unwatch();
  }

  #wake(): void {
    this.#changed = true;
    this.#notify?.();
    this.#notify = null;
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }
}
