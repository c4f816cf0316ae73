/** Reports at intervals that long work is still running. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

const INTERVAL_MS = 30_000;
const GROWTH_INTERVAL_MS = 5_000;
const MB = 1_000_000;

export async function reportWhile<T>(progress: (line: string) => void, what: string, work: Promise<T>): Promise<T> {
  const timer = setInterval(() => progress(`still ${what}`), INTERVAL_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}

/** Like `reportWhile`, but for work that fills a folder: the folder's size shows the progress. */
export async function reportGrowth<T>(
  progress: (line: string) => void,
  what: string,
  { folder, expectedMb }: { readonly folder: string; readonly expectedMb: number },
  work: Promise<T>,
  intervalMs = GROWTH_INTERVAL_MS,
): Promise<T> {
  const report = async (): Promise<void> => {
    const mb = Math.round((await sizeBelow(folder)) / MB);
    // The expected size is a guess, so the report never shows more.
    progress(`still ${what}: ${Math.min(mb, expectedMb)} of about ${expectedMb} MB`);
  };
  const timer = setInterval(() => void report(), intervalMs);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}

/** Returns the size of a folder, in which files may appear and disappear at the same time. */
export async function sizeBelow(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const sizes = names.map(async (name) => {
    const stats = await stat(join(folder, name)).catch(() => null);
    return stats?.isFile() === true ? stats.size : 0;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
