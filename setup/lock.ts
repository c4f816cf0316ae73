import { withFileLock } from './file-lock.mjs';

/** As `withFileLock`, for folders that see no plain JavaScript. */
export function withLock<T>(file: string, work: () => Promise<T>, onWait: () => void): Promise<T> {
  return withFileLock(file, work, onWait);
}
