/** Node reads a folder as standard input as if it were empty, so readers of standard input check it first. */
import { fstatSync } from 'node:fs';

/** Returns false for a closed descriptor. */
export function isFolderDescriptor(fd: number): boolean {
  try {
    return fstatSync(fd).isDirectory();
  } catch {
    return false;
  }
}
