/** Keeps the embedded stack up while a service uses it, which `stack.json` and no other record tells. */
import type { Environment } from '../../setup/environment.ts';
import { askStack } from '../embedded/control-client.ts';
import { ensureStack, readStack } from '../embedded/stack.ts';
import { isMarkedStopped } from '../embedded/stop-mark.ts';

const LOOK_MS = 5_000;
/** Shorter than the time after which an unused stack ends. */
const USE_MS = 60_000;

/**
 * Tells the stack regularly that it is used. A stack that has died is started again; one that `voidbox down` stopped
 * stays down until another command starts it.
 * @param note  called when the stack is started again, or is found stopped
 */
export function holdStack(env: Environment, note: (line: string) => void): { dispose(): void } {
  let usedMs = Date.now();
  let isLooking = false;
  let isDown = false;
  let isDisposed = false;
  const checkStack = async (): Promise<void> => {
    if (Date.now() - usedMs >= USE_MS) {
      usedMs = Date.now();
      await askStack(env.stateDir, 'use');
    }
    if ((await readStack(env)) !== null || isDisposed) {
      isDown = false;
      return;
    }
    if (!isMarkedStopped(env.stateDir)) return void (await ensureStack(env, { onProgress: note }));
    if (!isDown) note('the embedded stack was stopped, so no run starts until another command starts it');
    isDown = true;
  };
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    checkStack()
      .catch((error: unknown) => note(`the embedded stack: ${(error as Error).message}`))
      .finally(() => (isLooking = false));
  }, LOOK_MS);
  return {
    dispose() {
      isDisposed = true;
      clearInterval(timer);
    },
  };
}
