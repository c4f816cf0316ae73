import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';

/**
 * Makes a folder for code that is generated from a source and run from there. @throws CodedError `skill/unusable` if
 * the folder cannot be created
 */
export async function temporaryFolder(): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), 'voidbox-source-'));
  } catch (cause) {
    const why = (cause as Error).message;
    throw new CodedError(
      'skill/unusable',
      `${tmpdir()}, the folder for temporary files, is not usable: ${why}. Set TMPDIR to a writable folder`,
      {
        cause,
      },
    );
  }
}
