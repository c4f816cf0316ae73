/**
 * Lets callers that want the same at the same time share a read. A read begins after each call that it answers, so that
 * no caller gets a value from before its call.
 */
export function shareReads<T>(read: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const running = new Map<string, Promise<void>>();
  const next = new Map<string, Promise<T>>();
  const begin = async (key: string): Promise<T> => {
    const value = read(key);
    const ended = value.then(
      () => void running.delete(key),
      () => void running.delete(key),
    );
    running.set(key, ended);
    return await value;
  };
  return async (key) => {
    const before = running.get(key);
    if (before === undefined && !next.has(key)) return await begin(key);
    const known = next.get(key);
    if (known !== undefined) return await known;
    const shared = before!.then(async () => {
      next.delete(key);
      return await begin(key);
    });
    next.set(key, shared);
    return await shared;
  };
}
