/** Loads a skill's code so that it cannot end this process, block it for ever, or write to standard output. */

import { isBaseVariable } from '../../domain/step-machine/skill-variables.ts';
import { restoreVariables, withholdVariables } from '../../setup/environment.ts';

let loading = 0;
const own = { exit: process.exit, write: process.stdout.write };

/**
 * Meanwhile `process.env` holds what every program needs, as it does where a skill runs, `process.exit` throws, and what is printed on standard output goes to standard error.
 * @throws what `load` throws, and an error when it waits for what can no longer come
 */
export async function guardLoading<T>(load: () => Promise<T>): Promise<T> {
  let giveUp = (): void => undefined;
  const never = new Promise<never>((_resolve, reject) => {
    giveUp = () =>
      reject(new Error('it waits for something that never comes; look at what is awaited outside of functions'));
  });
  // No pending work keeps the process alive; without this, it would end without a message.
  process.once('beforeExit', giveUp);
  begin();
  try {
    return await Promise.race([load(), never]);
  } finally {
    end();
    process.off('beforeExit', giveUp);
  }
}

/** Several may be loading at once. */
function begin(): void {
  loading += 1;
  if (loading > 1) return;
  own.exit = process.exit;
  own.write = process.stdout.write;
  withholdVariables(isBaseVariable);
  process.exit = (code) => {
    throw new Error(`it calls process.exit(${code ?? ''}), which would end the program that loads it`);
  };
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof own.write;
}

function end(): void {
  loading -= 1;
  if (loading > 0) return;
  process.exit = own.exit;
  process.stdout.write = own.write;
  restoreVariables();
}
