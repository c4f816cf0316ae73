/** One attempt of an action: its input, its time, its output. */
import type { Command } from '../../domain/step-machine/command.ts';
import type { ActionUse } from '../../domain/step-machine/definition.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import { freeze, type Place } from './callbacks.ts';
import { checkMade } from '../author/schema.ts';
import { startTimer } from './timer.ts';

export interface Attempt {
  readonly event: SessionEventBody;
  /** The value that the author's code threw, for callers in the same process. */
  readonly cause?: unknown;
  /** Settles when the author's code has returned, which is after the attempt if the code ignores its signal. */
  readonly left: Promise<void>;
}

/** Trying again would end the same way. */
class NotRetryable extends Error {}

export async function runAction(
  at: Place,
  command: Extract<Command, { type: 'run-action' }>,
  abort: AbortController,
): Promise<Attempt> {
  const { cursor, attempt } = command;
  const running = attemptOf(at, command, abort.signal);
  const left = running.then(ignore, ignore);
  try {
    const value = await withTimeout(command.timeoutMs, abort, running);
    return {
      event: {
        type: 'action-ended',
        cursor,
        attempt,
        ok: true,
        ...(value === undefined ? {} : { value: freeze(value) }),
      },
      left,
    };
  } catch (cause) {
    const error = errorFacts(cause);
    const timedOut = cause instanceof ActionTimeout;
    return {
      event: {
        type: 'action-ended',
        cursor,
        attempt,
        ok: false,
        error,
        retryable: !(cause instanceof NotRetryable),
        timedOut,
      },
      cause,
      left,
    };
  }
}

function ignore(): void {}

async function attemptOf(
  at: Place,
  command: Extract<Command, { type: 'run-action' }>,
  signal: AbortSignal,
): Promise<unknown> {
  const { response, idempotencyKey, attempt } = command;
  const action = at.config.action!;
  const call = { signal, idempotencyKey, attempt };
  if (typeof action === 'function') return action({ response, store: at.store, params: at.frame.params, ...call });
  const { run: definition } = action;
  const input = checkMade(definition.input, mapInputOf(at, action, response), `action "${definition.name}": input`);
  if (!input.ok)
    throw new NotRetryable(
      `Action "${definition.name}" at step "${at.step}": its input does not fit its schema: ${input.message}`,
    );
  const output = checkMade(
    definition.output,
    await definition.run({ input: input.value, ...call }),
    `action "${definition.name}": output`,
  );
  if (!output.ok)
    throw new NotRetryable(
      `Action "${definition.name}" at step "${at.step}": its output does not fit its schema: ${output.message}`,
    );
  return output.value;
}

function mapInputOf(at: Place, { mapInput }: ActionUse, response: unknown): unknown {
  return mapInput === undefined ? response : mapInput({ response, store: at.store, params: at.frame.params });
}

export class ActionTimeout extends Error {
  override readonly name = 'TimeoutError';
}

/** Ends the attempt when its time is up. The result of an action that ignores its signal is discarded. */
async function withTimeout<T>(timeoutMs: number | null, abort: AbortController, running: Promise<T>): Promise<T> {
  let stopTimer: (() => void) | undefined;
  const over = new Promise<never>((_resolve, reject) => {
    const stop = (): void => reject(abort.signal.reason as Error);
    if (abort.signal.aborted) return stop();
    abort.signal.addEventListener('abort', stop, { once: true });
    if (timeoutMs !== null)
      stopTimer = startTimer(timeoutMs, () => abort.abort(new ActionTimeout(`ran past its timeoutMs of ${timeoutMs}`)));
  });
  try {
    return await Promise.race([running, over]);
  } finally {
    stopTimer?.();
  }
}

export function errorFacts(cause: unknown): { name: string; message: string } {
  return cause instanceof Error
    ? { name: cause.name, message: cause.message }
    : { name: 'Error', message: String(cause) };
}
