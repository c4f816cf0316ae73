import type * as Fs from 'node:fs';
import { appendFile, cp, mkdtemp, readFile, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  collect,
  describeEventLog,
  expectNoGaps,
  finishedEvent,
  noticeEvent,
  outputEvent,
  type RunsSubject,
} from '../../test/conformance/store.ts';
import type { OpenedRuns } from '../../test/conformance/store/opened-runs.ts';
import { describeRunIndex } from '../../test/conformance/store/run-index.ts';
import { open } from '../../test/conformance/store/file-factory.ts';

async function place(): Promise<{ location: string; dispose(): Promise<void> }> {
  const location = await mkdtemp(join(tmpdir(), 'voidbox-events-'));
  return { location, dispose: () => rm(location, { recursive: true, force: true }) };
}

const appends = vi.hoisted(() => ({ writes: 0 }));

vi.mock('node:fs', async (original) => {
  const fs = await original<typeof Fs>();
  return {
    ...fs,
    writeSync(fd: number, ...rest: [NodeJS.ArrayBufferView]) {
      if (fs.readlinkSync(`/proc/self/fd/${fd}`).endsWith('/events.jsonl')) appends.writes++;
      return fs.writeSync(fd, ...rest);
    },
  };
});

const subject: RunsSubject = {
  name: 'file',
  place,
  open,
  roundTrips: () => appends.writes,
  factoryModule: fileURLToPath(new URL('../../test/conformance/store/file-factory.ts', import.meta.url)),
};

describeEventLog(subject);
describeRunIndex(subject);

describe('file event log', () => {
  let dir: string;
  let dispose: () => Promise<void>;
  let store: OpenedRuns;
  let log: string;

  beforeEach(async () => {
    ({ location: dir, dispose } = await place());
    store = await open(dir);
    log = join(dir, 'runs/r/events.jsonl');
  });
  afterEach(async () => {
    await store.close();
    await dispose();
  });

  test('continues after a log that was cut at any byte', async () => {
    await store.append('r', [noticeEvent('a'), noticeEvent('b')]);
    await store.append('r', [outputEvent('a/0/1', 0, 'žx')], { execKey: 'a/0/1', fence: 3 });
    const whole = await readFile(log);
    const firstBytes = whole.indexOf(0x0a) + 1;
    for (let cut = 0; cut < whole.length; cut++) {
      await writeFile(log, whole.subarray(0, cut));
      const reopened = await open(dir);
      const kept = cut < firstBytes ? [] : ['a', 'b'];
      expect((await collect(reopened.read('r', 0))).map((event) => event.id)).toEqual(kept);
      expect(await reopened.append('r', [noticeEvent('next')])).toBe(1);
      const events = await collect(reopened.read('r', 0));
      expectNoGaps(events);
      // A line that lacked only its newline is whole, and counts once the newline is written.
      const ended =
        cut === firstBytes - 1 ? ['a', 'b'] : cut === whole.length - 1 ? ['a', 'b', 'exec/a/0/1/stdout/0'] : kept;
      expect(events.map((event) => event.id)).toEqual([...ended, 'next']);
      await reopened.close();
    }
  }, 300_000);

  test('continues while its own log has a torn line at the end', async () => {
    await store.append('r', [noticeEvent('a')]);
    await appendFile(log, '{"commit":2,"seq":2,"by":"x","ev');
    expect(await store.append('r', [noticeEvent('b')])).toBe(1);
    await appendFile(log, '\0\0\0\0');
    expect(await store.append('r', [noticeEvent('c')])).toBe(1);
    expect((await collect(store.read('r', 0))).map((event) => event.id)).toEqual(['a', 'b', 'c']);
  });

  test('does not count a line that was decided before another came first', async () => {
    await store.append('r', [noticeEvent('a')]);
    await store.append('r', [noticeEvent('b'), noticeEvent('c')]);
    const late = { commit: 2, seq: 2, by: 'zombie', events: [noticeEvent('z'), noticeEvent('y')] };
    await appendFile(log, `${JSON.stringify(late)}\n`);
    expect(await store.append('r', [noticeEvent('z')])).toBe(1);
    const events = await collect(store.read('r', 0));
    expectNoGaps(events);
    expect(events.map((event) => event.id)).toEqual(['a', 'b', 'c', 'z']);
  });

  test('names the place of damage in a log, and does not skip what is lost', async () => {
    for (const id of ['a', 'b', 'c']) await store.append('r', [noticeEvent(id)]);
    const lines = (await readFile(log, 'utf8')).split('\n');
    await writeFile(log, [lines[0], '{"dam', lines[2], ''].join('\n'));
    await expect(collect(store.read('r', 0))).rejects.toMatchObject({
      code: 'store/damaged',
      message: expect.stringContaining('damaged: at byte'),
    });
    await expect((await open(dir)).append('r', [noticeEvent('d')])).rejects.toMatchObject({
      code: 'store/damaged',
    });
  });

  test('reads events without the files of output', async () => {
    await store.append('r', [outputEvent('a/0/1', 0, 'x'.repeat(5_000)), finishedEvent()]);
    await rm(join(dir, 'runs/r/output'), { recursive: true });
    expect((await collect(store.read('r', 0, { output: false }))).map((event) => event.id)).toEqual(['run/finished']);
    expect(await (await open(dir)).outputCursor('r', 'a/0/1', 'stdout')).toBe(5_000);
    await expect(collect(store.read('r', 0))).rejects.toMatchObject({ code: 'store/damaged' });
  });

  test('keeps the log short under many small pieces', async () => {
    for (let index = 0; index < 3_000; index++)
      await store.append('r', [outputEvent('a/0/1', index * 400, 'x'.repeat(400))]);
    const size = (await stat(log)).size;
    expect(size).toBeLessThan(3_000 * 400);
    expect((await collect(store.read('r', 0))).length).toBe(3_000);
  }, 300_000);

  test('keeps working with more runs than it keeps open', async () => {
    const runs = Array.from({ length: 150 }, (_, index) => `r${index}`);
    for (const id of ['a', 'b']) {
      await Promise.all(
        runs.map((run) =>
          store.append(run, [noticeEvent(id), outputEvent('a/0/1', id === 'a' ? 0 : 1_000, id.repeat(1_000))]),
        ),
      );
    }
    for (const run of runs) {
      const events = await collect(store.read(run, 0));
      expectNoGaps(events);
      expect(events.length).toBe(4);
    }
    expect((await readdir('/proc/self/fd')).length).toBeLessThan(400);
  }, 300_000);

  test('does not bring a pruned run back', async () => {
    await store.append('r', [finishedEvent()]);
    await rm(join(dir, 'runs/r'), { recursive: true });
    await expect(store.append('r', [noticeEvent('late')])).rejects.toMatchObject({ code: 'store/io' });
  });

  test('knows nothing of a run that was pruned while its log is open, and reads a new run with its id', async () => {
    await store.append('r', [noticeEvent('a'), outputEvent('a/0/1', 0, 'x')]);
    await rm(join(dir, 'runs/r'), { recursive: true });
    expect(await store.find('r', 'a')).toBeNull();
    expect(await store.outputCursor('r', 'a/0/1', 'stdout')).toBe(0);
    const other = await open(dir);
    await other.append('r', [noticeEvent('b')]);
    await other.close();
    expect(await store.find('r', 'b')).toMatchObject({ id: 'b' });
  });

  test('does not bring a pruned run back that it was asked about', async () => {
    await store.append('r', [finishedEvent()]);
    await rm(join(dir, 'runs/r'), { recursive: true });
    expect(await store.find('r', 'a')).toBeNull();
    await expect(store.append('r', [noticeEvent('late')])).rejects.toMatchObject({ code: 'store/io' });
  });

  test('rejects an append to a log that became shorter', async () => {
    await store.append('r', [noticeEvent('a')]);
    await truncate(log, 3);
    await expect(store.append('r', [noticeEvent('b')])).rejects.toMatchObject({ code: 'store/damaged' });
  });

  test('lets only the owner read its files', async () => {
    await store.append('r', [outputEvent('a/0/1', 0, 'x'.repeat(5_000))]);
    const outputs = await readdir(join(dir, 'runs/r/output'));
    const modes = await Promise.all(
      ['runs', 'runs/r', 'runs/r/events.jsonl', 'runs/r/output', `runs/r/output/${outputs[0]}`].map(
        async (path) => (await stat(join(dir, path))).mode & 0o777,
      ),
    );
    expect(modes).toEqual([0o700, 0o700, 0o600, 0o700, 0o600]);
  });

  test('copies of a folder read the same', async () => {
    await store.append('r', [noticeEvent('a'), outputEvent('a/0/1', 0, 'y'.repeat(3_000))]);
    await cp(join(dir, 'runs/r'), join(dir, 'runs/copy'), { recursive: true });
    expect(await collect(store.read('copy', 0))).toEqual(await collect(store.read('r', 0)));
  });
});
