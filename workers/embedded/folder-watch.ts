/** Whether the state folder is still the one that the stack was started for. */
import { statSync } from 'node:fs';

const LOOK_MS = 1_000;
/** A folder that is moved away and back meanwhile is the same. */
const LOOKS_WITHOUT = 3;
/** The system says with these that nothing is there. Any other error says nothing of the folder. */
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
  /** It was deleted or moved away, or another one is in its place. */
  isGone(): boolean;
  stop(): void;
}

/** @throws Error when it is not there to begin with */
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
