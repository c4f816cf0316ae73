/** The specs that a spec uses, from this machine's files. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import type { ReadSpec } from '../domain/spec/part-files.ts';
import { SOURCE_LIMITS } from '../domain/spec/source.ts';

/** A longer text is refused by the reader of specs in any case. */
const MOST_BYTES = SOURCE_LIMITS.bytes;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'this user may not read it',
};

export const readSpec: ReadSpec = (path) => {
  let file: number | null = null;
  try {
    file = openSync(path, 'r');
    const { size } = fstatSync(file);
    if (size > MOST_BYTES) return { problem: `it has ${size} bytes, at most ${MOST_BYTES} are read` };
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file)) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return { problem: 'it is not UTF-8 text' };
    return { problem: REASONS[code ?? ''] ?? message };
  } finally {
    if (file !== null) closeSync(file);
  }
};
