import { describe, expect, test } from 'vitest';
import { createRedactor } from '../../domain/security/redactor.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { pumpOutput } from './output-pump.ts';
import type { PumpDisk } from '../ports/pump-disk.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { Exec } from '../ports/sandbox.ts';

const ROOM: PumpDisk = { hasRoomForOutput: () => true, isFull: () => false, limitMs: 60_000 };

/** Pumps the given chunks as standard output, from the store's cursor on. */
async function pump(
  chunks: readonly Uint8Array[],
  options: {
    readonly cursor?: number;
    readonly appendMs?: number;
    readonly disk?: PumpDisk;
    readonly onAppend?: () => void;
  } = {},
) {
  const stored: NewRunEvent[] = [];
  const peak = { unread: 0, largest: 0 };
  let read = 0;
  let appended = 0;
  const cursor = options.cursor ?? 0;
  const whole = Buffer.concat([...chunks]);
  const exec: Pick<Exec, 'output'> = {
    async *output(stream, offset) {
      if (stream === 'stderr') return;
      let position = 0;
      for (const chunk of chunks) {
        const from = Math.max(0, offset - position);
        position += chunk.length;
        if (from >= chunk.length) continue;
        read += chunk.length - from;
        peak.unread = Math.max(peak.unread, read - appended);
        yield chunk.subarray(from);
      }
    },
  };
  const events: Pick<EventLog, 'append' | 'outputCursor'> = {
    outputCursor: async (_run, _key, stream) => (stream === 'stdout' ? cursor : 0),
    async append(_run, added) {
      options.onAppend?.();
      if (options.appendMs !== undefined) await new Promise((resolve) => setTimeout(resolve, options.appendMs));
      for (const event of added)
        if (event.body.type === 'output') {
          appended += event.body.to - event.body.from;
          peak.largest = Math.max(peak.largest, event.body.to - event.body.from);
        }
      stored.push(...added);
      return added.length;
    },
  };
  await pumpOutput(
    {
      runId: 'r',
      stage: 's',
      execKey: 's/0/1',
      fence: 1,
      exec: exec as Exec,
      events: events as EventLog,
      redactor: createRedactor([]),
      now: () => 0,
      disk: options.disk ?? ROOM,
    },
    new AbortController(),
  );
  const bodies = stored.flatMap(({ body }) => (body.type === 'output' ? [body] : []));
  const bytes = Buffer.concat(
    bodies.map(({ encoding, data }) => Buffer.from(data, encoding === 'utf8' ? 'utf8' : 'base64')),
  );
  expect(bytes.equals(whole.subarray(cursor))).toBe(true);
  return { bodies, peak };
}

/** Pumps pieces of both streams in the order of a keeper, and returns the stored pieces. */
async function pumpBoth(
  pieces: readonly (readonly ['stdout' | 'stderr', string])[],
  from = { stdout: 0, stderr: 0 },
): Promise<readonly string[]> {
  const stored: NewRunEvent[] = [];
  const exec: Pick<Exec, 'outputs'> = {
    outputs: (offsets) => {
      expect(offsets).toEqual(from);
      return (async function* () {
        for (const [stream, text] of pieces) yield { stream, bytes: Buffer.from(text, 'latin1') };
      })();
    },
  };
  const events: Pick<EventLog, 'append' | 'outputCursor'> = {
    outputCursor: async (_run, _key, stream) => from[stream],
    append: async (_run, added) => stored.push(...added),
  };
  const options = { runId: 'r', stage: 's', execKey: 's/0/1', fence: 1, redactor: createRedactor([]), now: () => 0 };
  const both = { exec: exec as Exec, events: events as EventLog, disk: ROOM };
  await pumpOutput({ ...options, ...both }, new AbortController());
  return stored.map(({ body }) =>
    body.type === 'output' ? `${body.stream} ${body.from}-${body.to} ${body.data}` : '',
  );
}

describe('two streams', () => {
  test('keep the order in which their bytes came', async () => {
    const lines = [1, 2, 3].flatMap((at) => [['stdout', `out${at}\n`] as const, ['stderr', `err${at}\n`] as const]);
    expect(await pumpBoth(lines)).toEqual([
      'stdout 0-5 out1\n',
      'stderr 0-5 err1\n',
      'stdout 5-10 out2\n',
      'stderr 5-10 err2\n',
      'stdout 10-15 out3\n',
      'stderr 10-15 err3\n',
    ]);
  });
  test('are one event for each run of one stream, from the cursor of the store', async () => {
    const pieces = [
      ['stdout', 'a'],
      ['stdout', 'b'],
      ['stderr', 'x'],
      ['stdout', 'c'],
    ] as const;
    expect(await pumpBoth(pieces, { stdout: 7, stderr: 2 })).toEqual([
      'stdout 7-9 ab',
      'stderr 2-3 x',
      'stdout 9-10 c',
    ]);
  });
});

describe('the pump', () => {
  test('keeps text as text although chunks cut its characters', async () => {
    const text = Buffer.from('żółw 🐢 '.repeat(400));
    for (const size of [1, 3, 7, 1000]) {
      const chunks = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
        text.subarray(index * size, (index + 1) * size),
      );
      expect((await pump(chunks)).bodies.every(({ encoding }) => encoding === 'utf8')).toBe(true);
    }
  });

  test('stores bytes that are not text without a change', async () => {
    const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256);
    expect((await pump([bytes])).bodies.some(({ encoding }) => encoding === 'base64')).toBe(true);
  });

  test('joins small chunks, cuts large chunks, and continues from the cursor', async () => {
    const small = Array.from({ length: 2_000 }, (_, index) => Buffer.from(`${index}\n`));
    expect((await pump(small)).bodies.length).toBeLessThan(20);
    const { bodies, peak } = await pump([Buffer.alloc(1_000_000, 'x')], { cursor: 123_456 });
    expect(peak.largest).toBeLessThanOrEqual(64 * 1024);
    expect(bodies[0]?.from).toBe(123_456);
  });

  test('reads no further ahead of a slow store than its buffer', async () => {
    const chunks = Array.from({ length: 64 }, () => Buffer.alloc(64 * 1024, 'y'));
    const { peak } = await pump(chunks, { appendMs: 20 });
    expect(peak.unread).toBeLessThanOrEqual(512 * 1024);
  });

  test('waits while the disk is full, and stores every byte once when there is room', async () => {
    const full = new Error('no space left');
    let looks = 0;
    let tries = 0;
    const disk: PumpDisk = {
      hasRoomForOutput: () => (looks += 1) > 2,
      isFull: (error) => error === full,
      limitMs: 60_000,
    };
    const onAppend = (): void => {
      if ((tries += 1) === 1) throw full;
    };
    const { bodies } = await pump([Buffer.from('one\n'), Buffer.from('two\n')], { disk, onAppend });
    expect(bodies).toHaveLength(1);
    expect([looks > 3, tries]).toEqual([true, 2]);
  });

  test('gives up after a limit, with a code for which no other VM starts', async () => {
    const disk: PumpDisk = { hasRoomForOutput: () => false, isFull: () => false, limitMs: 20 };
    await expect(pump([Buffer.from('x')], { disk })).rejects.toMatchObject({ code: 'host/disk-full' });
  });

  test('the pump fails with the store, although the command continues without further output', async () => {
    const exec: Pick<Exec, 'output'> = {
      async *output(stream, _offset, signal) {
        if (stream === 'stdout') yield Buffer.from('x');
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true });
        });
      },
    };
    const broken = new Error('EIO');
    const events: Pick<EventLog, 'append' | 'outputCursor'> = {
      outputCursor: async () => 0,
      append: () => Promise.reject(broken),
    };
    const options = { runId: 'r', stage: 's', execKey: 's/0/1', fence: 1, redactor: createRedactor([]), now: () => 0 };
    const both = { exec: exec as Exec, events: events as EventLog, disk: ROOM };
    await expect(pumpOutput({ ...options, ...both }, new AbortController())).rejects.toBe(broken);
  });

  test('waits only for room', async () => {
    const broken = new Error('EIO');
    const onAppend = (): void => {
      throw broken;
    };
    await expect(pump([Buffer.from('x')], { onAppend })).rejects.toBe(broken);
  });
});
