/** A log file of bounded size: when it is full it becomes `<name>.1` and a new one begins. */
import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

const MAX_BYTES = 4 * 1024 * 1024;

export interface CappedLog {
  write(text: string): void;
}

export function openCappedLog(file: string, maxBytes = MAX_BYTES): CappedLog {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  let size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  return {
    write(text) {
      const bytes = Buffer.byteLength(text);
      if (size > 0 && size + bytes > maxBytes) {
        renameSync(file, `${file}.1`);
        size = 0;
      }
      // A log that can't be written (full disk) must not end the process that writes it.
      try {
        appendFileSync(file, text, { mode: 0o600 });
        size += bytes;
      } catch {
        size = 0;
      }
    },
  };
}
