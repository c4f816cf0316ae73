import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { watchFolder } from './folder-watch.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Seen = { readonly dev: bigint; readonly ino: bigint } | string;
const THERE = { dev: 1n, ino: 2n };

/** What is seen at each look; the last one from then on. @returns how often it was told that the folder is gone */
function toldOf(...looks: readonly Seen[]): number {
  let at = -1;
  const onGone = vi.fn();
  const stat = (): Exclude<Seen, string> => {
    const seen = at < 0 ? THERE : (looks[Math.min(at, looks.length - 1)] as Seen);
    at += 1;
    if (typeof seen === 'string') throw Object.assign(new Error(seen), { code: seen });
    return seen;
  };
  watchFolder({ stateDir: '/state', onGone, stat, lookMs: 1_000 });
  vi.advanceTimersByTime(10_000);
  return onGone.mock.calls.length;
}

test.each<[string, readonly Seen[]]>([
  ['was deleted', ['ENOENT']],
  ['has a file in the place of a folder above it', ['ENOTDIR']],
  ['is another one', [{ dev: 1n, ino: 3n }]],
  ['is on another disk', [{ dev: 7n, ino: 2n }]],
  ['was deleted and came back as another one', ['ENOENT', { dev: 1n, ino: 9n }]],
])('a folder that %s is gone, and the watch reports that once, within ten seconds', (_what, looks) => {
  expect(toldOf(...looks)).toBe(1);
});

test.each<[string, readonly Seen[]]>([
  ['stays', [THERE]],
  ['cannot be looked at for want of files', ['EMFILE']],
  ['cannot be read', ['EIO']],
  ['no process may read', ['EACCES']],
  ['is on a server that does not answer', ['ESTALE']],
  ['was moved away and back', ['ENOENT', 'ENOENT', THERE]],
  ['cannot be looked at in between', ['ENOENT', 'EIO', 'ENOENT', 'EIO', 'ENOENT', THERE]],
])('a folder that %s is not gone', (_what, looks) => {
  expect(toldOf(...looks)).toBe(0);
});
