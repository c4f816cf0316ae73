/**
 * Live sandbox handles of this process, one per VM. Attaching raises the fence and excludes the earlier holder, so the
 * stages of a shared scope must use one common handle.
 */
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { KeyedLock } from '../keyed-lock.ts';
import { NoticeCursor } from './notice-cursor.ts';
import type { Sandbox, VmKey } from '../ports/sandbox.ts';

export interface PooledVm {
  readonly sandbox: Sandbox;
  /** Returns the handle. The last user of a VM closes its connections; the VM continues to live. */
  leave(): void;
}

export interface VmPool {
  use(key: VmKey, launch: () => Promise<Sandbox>): Promise<PooledVm>;
  /** Runs work under a key, usually of a VM, one task after the other. */
  exclusively<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** Returns this worker's position in the notices of the VM's door. */
  notices(key: VmKey): NoticeCursor;
  /** Forgets a VM that was stopped or lost. */
  drop(key: VmKey): void;
}

interface Entry {
  readonly sandbox: Promise<Sandbox>;
  users: number;
}

export function createVmPool(): VmPool {
  const entries = new Map<string, Entry>();
  const cursors = new Map<string, NoticeCursor>();
  const lock = new KeyedLock();

  function leaver(name: string, entry: Entry): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      entry.users -= 1;
      if (entry.users > 0) return;
      if (entries.get(name) === entry) entries.delete(name);
      entry.sandbox.then(
        (sandbox) => sandbox.detach(),
        () => undefined,
      );
    };
  }

  return {
    async use(key, launch) {
      const name = formatVmKey(key);
      for (;;) {
        const known = entries.get(name);
        const entry = known ?? { sandbox: launch(), users: 0 };
        if (known === undefined) entries.set(name, entry);
        entry.users += 1;
        try {
          return { sandbox: await entry.sandbox, leave: leaver(name, entry) };
        } catch (error) {
          if (entries.get(name) === entry) entries.delete(name);
          // Another user's launch may have failed because that user was cancelled, so this user launches again.
          if (known === undefined) throw error;
        }
      }
    },
    exclusively: (key, signal, work) => lock.run(key, signal, work),
    notices(key) {
      const name = formatVmKey(key);
      const cursor = cursors.get(name) ?? new NoticeCursor();
      cursors.set(name, cursor);
      return cursor;
    },
    drop(key) {
      entries.delete(formatVmKey(key));
      cursors.delete(formatVmKey(key));
    },
  };
}
