/** Values of this shell's variables for a session that is being opened: those that its skill declares, as its worker says. */
import type { SessionStart } from '../../activities/ports/session-stores.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Environment } from '../../setup/environment.ts';
import { openSessionVariables } from '../../store/open-session-stores.ts';

/**
 * @param opening  `start` starts the session with this opener
 * @throws what `start` throws
 */
export async function handOverDuring<T>(
  env: Pick<Environment, 'stateDir' | 'variables' | 'undecodable'>,
  opening: SessionStart,
  onProgress: (line: string) => void,
  start: () => Promise<T>,
): Promise<T> {
  const opened = new AbortController();
  const reportNames = (names: readonly string[]): void =>
    onProgress(names.length === 0 ? 'passes no variables' : `passes ${names.join(', ')}`);
  // If this fails, the worker lacks the variables and reports that.
  const answering = openSessionVariables(env)
    .answer(opening, readableOf(env), opened.signal, reportNames)
    .catch((error: unknown) => {
      const { message } = error as Error;
      onProgress(error instanceof CodedError ? message : `no variables can be passed: ${message}`);
    });
  try {
    return await start();
  } finally {
    opened.abort();
    await answering;
  }
}

/** Variables of which the ones that are not UTF-8 cannot be read. */
function readableOf({
  variables,
  undecodable,
}: Pick<Environment, 'variables' | 'undecodable'>): Environment['variables'] {
  const readable = { ...variables };
  for (const name of undecodable)
    Object.defineProperty(readable, name, {
      get(): never {
        throw new CodedError('host/variable-not-text', `the value of ${name} is not UTF-8, and is not passed`);
      },
    });
  return readable;
}
