/** Readers of the files that a spec names, which report each file: a deployment sends them. */
import { join } from 'node:path';
import type { ListFiles } from '../domain/language/read/file-pattern.ts';

/** Gets the absolute path of a file. Absent: it is not reported. */
export type OnRead = ((path: string) => void) | undefined;

export function trackRead<T>(read: (path: string) => T, onRead: OnRead): (path: string) => T {
  return (path) => {
    onRead?.(path);
    return read(path);
  };
}

export function trackListed(list: ListFiles, onRead: OnRead): ListFiles {
  return (folder, pattern) => {
    const found = list(folder, pattern);
    if ('files' in found) for (const file of found.files) onRead?.(join(folder, file));
    return found;
  };
}
