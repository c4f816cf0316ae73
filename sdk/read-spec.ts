/** The specs that a spec uses, from this machine's files. */
import { findUtf16 } from '../domain/units/utf8.ts';
import { FileRefusal, readFileWithin } from '../files/open-file.ts';
import type { ReadSpec } from '../domain/language/read/part-files.ts';
import { SOURCE_LIMITS } from '../domain/language/text/source.ts';

/**
 * @param roots  folders that may contain parts; other files are not read, because diagnostics show their lines
 */
export function createReadSpec(roots: readonly string[]): ReadSpec {
  return (path) => {
    try {
      // The reader of specs rejects a longer text anyway.
      const bytes = readFileWithin(path, { roots, mostBytes: SOURCE_LIMITS.bytes });
      const encoding = findUtf16(bytes);
      if (encoding !== null)
        return { problem: `it is UTF-16 text; save it as UTF-8: iconv -f ${encoding} -t UTF-8 FILE` };
      return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
    } catch (error) {
      if (error instanceof FileRefusal) return { problem: describe(error) };
      if ((error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
        return { problem: 'it is not UTF-8 text' };
      throw error;
    }
  };
}

function describe({ reason, message, leadsTo }: FileRefusal): string {
  return reason === 'outside'
    ? `it leads to ${leadsTo}, which is neither in the folder of the spec, nor in the repository that holds the spec, nor in a folder that \`--allow-mounts\` allows`
    : message;
}
