import { CodedError } from '../../domain/errors/coded-error.ts';
import { AppError } from '../app-error.ts';
import type { FoundHook } from './find-hook.ts';
import type { HookRefusal } from './hook-request.ts';
import type { ReadHookSecrets } from './receive-hook.ts';

/** A stranger must not fill the log: each webhook has a line at most this often. */
const LINE_EVERY_MS = 60_000;
const MOST_HOOKS = 1_000;

export const REFUSAL_REASONS: Readonly<Record<HookRefusal, string>> = {
  missing: 'it has no signature or no time',
  repeated: 'it has the header of its signature or of its time more than once',
  malformed: 'its signature, its id or its time has another form',
  'too-old': 'its time is more than 5 minutes ago, by the clock of this machine',
  'too-new': 'its time is more than 5 minutes ahead, by the clock of this machine',
  wrong: 'no secret of the trigger makes its signature',
  'no-secret': 'the secret of the trigger is absent, empty or has another form',
};

export type LogRefusal = (hook: FoundHook, refusal: HookRefusal) => void;

/** Tells the owner of a deployment why requests are refused. Their senders get no reason. */
export function createRefusalLog({
  log,
  nowMs,
}: {
  readonly log: (line: string) => void;
  readonly nowMs: () => number;
}): LogRefusal {
  const loggedAtMs = new Map<string, number>();
  return ({ deployment, trigger }, refusal) => {
    const hook = `${deployment}/${trigger.name}`;
    const now = nowMs();
    if (now - (loggedAtMs.get(hook) ?? -LINE_EVERY_MS) < LINE_EVERY_MS) return;
    loggedAtMs.delete(hook);
    loggedAtMs.set(hook, now);
    if (loggedAtMs.size > MOST_HOOKS) loggedAtMs.delete(loggedAtMs.keys().next().value!);
    log(`the webhook ${hook} refused a request: ${REFUSAL_REASONS[refusal]}`);
  };
}

/**
 * Hides from strangers why secrets cannot be read, such as the path of the file with the key. The log says why, at most
 * once a minute.
 * @returns a reader that throws `api/access-unavailable` instead
 */
export function hideSecretProblems(
  read: ReadHookSecrets,
  { log, nowMs }: { readonly log: (line: string) => void; readonly nowMs: () => number },
): ReadHookSecrets {
  let loggedAtMs = -LINE_EVERY_MS;
  return async (deployment, name) => {
    try {
      return await read(deployment, name);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (nowMs() - loggedAtMs >= LINE_EVERY_MS) {
        loggedAtMs = nowMs();
        log(`secrets of webhooks cannot be read: ${error.message}`);
      }
      throw new CodedError('api/access-unavailable', 'the secrets of webhooks cannot be read');
    }
  };
}
