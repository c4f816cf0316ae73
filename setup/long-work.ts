/** Says at intervals that something long is still going on. */
const INTERVAL_MS = 30_000;

export async function reportWhile<T>(progress: (line: string) => void, what: string, work: Promise<T>): Promise<T> {
  const timer = setInterval(() => progress(`still ${what}`), INTERVAL_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}
