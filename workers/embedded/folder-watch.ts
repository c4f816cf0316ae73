/** Watches whether the state folder is still the one that the stack was started for. */
import { statSync } from 'node:fs';

const LOOK_MS = 1_000;
/** The number of checks that must fail: a folder that was moved away and back in between is still the same. */
const LOOKS_WITHOUT = 3;
/** The errors that mean that the path does not exist. Other errors prove nothing about the folder. */
const NOT_THERE: readonly unknown[] = ['ENOENT', 'ENOTDIR'];

interface FolderIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

export interface FolderWatchOptions {
  readonly stateDir: string;
  readonly onGone: () => void;
  readonly lookMs?: number;
  readonly stat?: (path: string) => FolderIdentity;
}

export interface FolderWatch {
  /** Whether the folder was deleted, moved away, or replaced by another one. */
  isGone(): boolean;
  stop(): void;
}

/** @throws Error if the folder does not exist at the start */
export function watchFolder({
  stateDir,
  onGone,
  lookMs = LOOK_MS,
  stat = identityOf,
}: FolderWatchOptions): FolderWatch {
  const { dev, ino } = stat(stateDir);
  const isGone = (): boolean => {
    try {
      const now = stat(stateDir);
      return now.dev !== dev || now.ino !== ino;
    } catch (error) {
      return NOT_THERE.includes((error as NodeJS.ErrnoException).code);
    }
  };
  let without = 0;
  const timer = setInterval(() => {
    without = isGone() ? without + 1 : 0;
    if (without !== LOOKS_WITHOUT) return;
    clearInterval(timer);
    onGone();
  }, lookMs);
  return { isGone, stop: () => clearInterval(timer) };
}

function identityOf(path: string): FolderIdentity {
  return statSync(path, { bigint: true });
}
