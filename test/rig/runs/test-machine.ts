/** A machine of use-cases with the stores of a test, without a person and without a server. */
import type { Machine } from '../../../app/machine.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import type { Stores } from '../../../store/stores.ts';

export function createTestMachine(stores: Stores, change: Partial<Machine> = {}): Machine {
  return {
    env: readEnvironment({ VOIDBOX_STATE_DIR: '/nowhere/state', VOIDBOX_CACHE_DIR: '/nowhere/cache' }),
    cwd: '/',
    readStdin: () => Promise.reject(new Error('nothing to read')),
    confirm: () => Promise.resolve(null),
    stores: () => Promise.resolve(stores),
    now: () => new Date(),
    stackLink: () => Promise.resolve(null),
    warn: () => Promise.resolve(),
    ...change,
  };
}
