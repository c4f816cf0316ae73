/** Keeps the embedded stack up while a service uses it. No record of the state folder shows this use. */
import type { Environment } from '../../setup/environment.ts';
import { askStack } from '../embedded/control-client.ts';
import { ensureStack, readStack } from '../embedded/stack.ts';
import { isMarkedStopped } from '../embedded/stop-mark.ts';

const LOOK_MS = 5_000;
/** Shorter than the time after which an unused stack ends. */
const USE_MS = 60_000;

export interface HeldStack {
  /** Tells the stack that it is used. */
  use(): Promise<void>;
  isUp(): Promise<boolean>;
  /** Whether its owner has stopped it on purpose. */
  isStopped(): boolean;
  start(): Promise<void>;
}

export interface HoldOptions {
  /** Called when the stack is found stopped, or does not start. */
  readonly note: (line: string) => void;
  readonly lookMs?: number;
  readonly useMs?: number;
}

export function openHeldStack(env: Environment, note: (line: string) => void): HeldStack {
  return {
    use: async () => void (await askStack(env.stateDir, 'use')),
    isUp: async () => (await readStack(env)) !== null,
    isStopped: () => isMarkedStopped(env.stateDir),
    start: async () => void (await ensureStack(env, { onProgress: note })),
  };
}

/**
 * Tells the stack regularly that it is used. A stack that has died is started again; one that `voidbox down` stopped
 * stays down until another command starts it.
 */
export function holdStack(
  stack: HeldStack,
  { note, lookMs = LOOK_MS, useMs = USE_MS }: HoldOptions,
): { dispose(): void } {
  let usedMs = Date.now();
  let isLooking = false;
  let isDown = false;
  let isDisposed = false;
  let problem = '';
  const checkStack = async (): Promise<void> => {
    if (Date.now() - usedMs >= useMs) {
      usedMs = Date.now();
      await stack.use();
    }
    const isUp = await stack.isUp();
    if (isUp || isDisposed) {
      [isDown, problem] = [false, ''];
      return;
    }
    if (!stack.isStopped()) return await stack.start();
    if (!isDown) note('the embedded stack was stopped, so no run starts until another command starts it');
    isDown = true;
  };
  const noteOnce = (error: unknown): void => {
    const text = `the embedded stack: ${(error as Error).message}`;
    if (text !== problem) note(text);
    problem = text;
  };
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    void checkStack()
      .catch(noteOnce)
      .finally(() => (isLooking = false));
  }, lookMs);
  return {
    dispose() {
      isDisposed = true;
      clearInterval(timer);
    },
  };
}
