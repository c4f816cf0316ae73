import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openLocalStore } from '../../store/open-stores.ts';
import { watchDisk } from './disk-watch.ts';

let parent: string;

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'voidbox-disk-watch-'));
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(parent, { recursive: true, force: true });
});

test('the first start in a folder that does not exist yet logs nothing, and makes the ballast once the folder is there', () => {
  const stateDir = join(parent, 'state');
  const log = vi.fn();
  const watch = watchDisk(openLocalStore({ stateDir }), null, log);
  vi.advanceTimersByTime(5_000);
  mkdirSync(stateDir);
  vi.advanceTimersByTime(1_000);
  expect(existsSync(join(stateDir, 'ballast'))).toBe(true);
  expect(log.mock.calls).toEqual([]);
  watch.stop();
});

test('a store without a disk on this host has no ballast, and output waits for nothing', () => {
  const log = vi.fn();
  const watch = watchDisk(null, 7, log);
  vi.advanceTimersByTime(5_000);
  expect(watch.pump.hasRoomForOutput()).toBe(true);
  expect(watch.pump.limitMs).toBe(7);
  expect(vi.getTimerCount()).toBe(0);
  expect(log.mock.calls).toEqual([]);
  watch.stop();
});
