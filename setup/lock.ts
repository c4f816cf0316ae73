import { withFileLock } from './file-lock.mjs';

/** The same as `withFileLock`, for folders that may not import plain JavaScript. */
export function withLock<T>(file: string, work: () => Promise<T>, onWait: () => void): Promise<T> {
  return withFileLock(file, work, onWait);
}
