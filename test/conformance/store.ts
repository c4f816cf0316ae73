/**
 * The promises of every event log and artifact store, whatever its backend. A backend's own test file calls these tests
 * with a subject, and also tests its own files or tables. The index: `store/run-index.ts`.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import type { NewRunEvent, RunEvent } from '../../domain/run/event.ts';
import type { OpenedRuns } from './store/opened-runs.ts';
import { EVENT_LIMITS } from '../../domain/run/event-limits.ts';
import type { ProcessTask } from './store/process.ts';

export interface RunsSubject {
  readonly name: string;
  /** Makes a new, empty place for a store; `dispose` removes it. */
  place(): Promise<{ readonly location: string; dispose(): Promise<void> }>;
  /** Opens another store on a place, like another process. */
  open(location: string): Promise<OpenedRuns>;
  /** Counts how often appends of this process have called the backend of the log so far. */
  roundTrips(): number;
  /** The module that exports the same `open`, for other processes; null: processes do not share the store. */
  readonly factoryModule: string | null;
  /** Ids that no reader can name, because no URL can contain them; absent: readers name every id. */
  readonly unnamedIds?: readonly string[];
}

export function noticeEvent(id: string): NewRunEvent {
  return { id, atMs: 1_000, body: { type: 'notice', level: 'info', message: id } };
}

const FAILED = { state: 'failed', failedStage: null, output: null } as const;

export function finishedEvent(): NewRunEvent {
  return {
    id: 'run/finished',
    atMs: 2_000,
    body: { type: 'run-finished', outcome: { state: 'succeeded', failedStage: null, failure: null, output: null } },
  };
}

export function outputEvent(
  execKey: string,
  from: number,
  data: string,
  stream: 'stdout' | 'stderr' = 'stdout',
): NewRunEvent {
  const to = from + Buffer.byteLength(data);
  return {
    id: `exec/${execKey}/${stream}/${from}`,
    atMs: 1_500,
    body: { type: 'output', stage: 'a', execKey, stream, from, to, encoding: 'utf8', data },
  };
}

export async function collect(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const all: RunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** `seq` is 1, 2, 3 and so on. */
export function expectNoGaps(events: readonly RunEvent[]): void {
  expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
}

/** A writing process; `lines` are the lines that it has printed so far. */
export class StoreProcess {
  readonly lines: Record<string, unknown>[] = [];
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  /** Settles when its last line has been read. */
  readonly #silent: Promise<unknown>;
  #stderr = '';

  constructor(bundle: string, location: string, task: ProcessTask, nodeArgs: readonly string[] = []) {
    this.#child = spawn(process.execPath, [...nodeArgs, join(bundle, 'process.mjs'), location, JSON.stringify(task)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#exited = once(this.#child, 'exit');
    if (this.#child.stdout === null || this.#child.stderr === null) throw new Error('no pipes');
    const reader = createInterface({ input: this.#child.stdout }).on('line', (line) =>
      this.lines.push(JSON.parse(line) as Record<string, unknown>),
    );
    this.#silent = once(reader, 'close');
    this.#child.stderr.on('data', (text) => (this.#stderr += String(text)));
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** The last line that it printed. @throws when it failed */
  async done(): Promise<Record<string, unknown>> {
    await Promise.all([this.#exited, this.#silent]);
    if (this.#child.exitCode !== 0)
      throw new Error(`process ended with ${this.#child.exitCode ?? this.#child.signalCode}: ${this.#stderr}`);
    return this.lines.at(-1) ?? {};
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }
}

/** Bundles the store under test to JavaScript, because another process cannot read the sources. */
export async function bundleStore(factoryModule: string): Promise<string> {
  const outDir = await mkdtemp(join(tmpdir(), 'voidbox-store-suite-'));
  await build({
    configFile: false,
    logLevel: 'error',
    build: {
      ssr: true,
      outDir,
      target: 'node20',
      rollupOptions: {
        input: { factory: factoryModule, process: fileURLToPath(new URL('./store/process.ts', import.meta.url)) },
        output: { entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' },
        preserveEntrySignatures: 'strict',
      },
    },
  });
  return outDir;
}

export function describeEventLog(subject: RunsSubject): void {
  const { factoryModule } = subject;
  describe(`${subject.name}: event log`, () => {
    let bundle: string;
    let location: string;
    let dispose: () => Promise<void>;
    const processes: StoreProcess[] = [];

    beforeAll(async () => {
      if (factoryModule !== null) bundle = await bundleStore(factoryModule);
    }, 60_000);
    afterAll(async () => {
      if (factoryModule !== null) await rm(bundle, { recursive: true, force: true });
    });
    const opened: OpenedRuns[] = [];
    async function fresh(): Promise<OpenedRuns> {
      ({ location, dispose } = await subject.place());
      return another();
    }
    async function another(): Promise<OpenedRuns> {
      const store = await subject.open(location);
      opened.push(store);
      return store;
    }
    function start(task: ProcessTask, nodeArgs: readonly string[] = []): StoreProcess {
      const child = new StoreProcess(bundle, location, task, nodeArgs);
      processes.push(child);
      return child;
    }
    afterEach(async () => {
      await Promise.all(processes.splice(0).map((child) => child.kill()));
      await Promise.all(opened.splice(0).map((store) => store.close()));
      await dispose();
    });

    test('gives seq from 1 in the order of appending', async () => {
      const store = await fresh();
      expect(await store.append('r', [noticeEvent('a'), noticeEvent('b')])).toBe(2);
      expect(await store.append('r', [noticeEvent('c')])).toBe(1);
      const events = await collect(store.read('r', 0));
      expectNoGaps(events);
      expect(events.map((event) => event.id)).toEqual(['a', 'b', 'c']);
      expect(events[0]).toEqual({ seq: 1, ...noticeEvent('a') });
      expect((await collect(store.read('r', 2))).map((event) => event.id)).toEqual(['c']);
      expect(await collect(store.read('r', 3))).toEqual([]);
    });

    test('keeps runs apart, and lists no run that was only read', async () => {
      const store = await fresh();
      await store.append('two', [noticeEvent('a')]);
      await store.append('one', [noticeEvent('b')]);
      expect((await collect(store.read('two', 0))).map((event) => event.id)).toEqual(['a']);
      expect((await collect(store.read('one', 0))).map((event) => event.id)).toEqual(['b']);
      expect(await collect(store.read('none', 0))).toEqual([]);
      expect(await store.outputCursor('none', 'a/0/1', 'stdout')).toBe(0);
      expect(await store.find('none', 'a')).toBeNull();
      expect(await store.index.has('none')).toBe(false);
    });

    test('appends in one round trip, however many events there are and whatever they are', async () => {
      const store = await fresh();
      const trips = async (append: () => Promise<unknown>): Promise<number> => {
        const before = subject.roundTrips();
        await append();
        return subject.roundTrips() - before;
      };
      const writer = { execKey: 'a/0/1', fence: 1 };
      const many = Array.from({ length: 500 }, (_, index) => noticeEvent(`n/${index}`));
      expect(await trips(() => store.append('r', [noticeEvent('first')]))).toBe(1);
      expect(await trips(() => store.append('r', many))).toBe(1);
      expect(await trips(() => store.append('r', [], writer))).toBe(1);
      expect(await trips(() => store.append('r', [outputEvent('a/0/1', 0, 'out'), noticeEvent('m')], writer))).toBe(1);
      expect(await trips(() => store.append('r', [noticeEvent('last'), finishedEvent()]))).toBe(1);
      // A store may know recorded events without asking its backend.
      expect(await trips(() => store.append('r', many))).toBeLessThanOrEqual(1);
      expectNoGaps(await collect(store.read('r', 0)));
    });

    test('cuts the words of an event, and refuses an event that is still too large', async () => {
      const store = await fresh();
      const long = `${'x'.repeat(EVENT_LIMITS.textCharacters)}the end`;
      const failure = { code: 'stage/timeout', message: long, stderrTail: long } as const;
      await store.append('r', [
        { ...noticeEvent('long'), body: { type: 'notice', level: 'info', message: long } },
        { ...noticeEvent('whole'), body: { type: 'notice', level: 'info', message: long.slice(7) } },
        { ...finishedEvent(), body: { type: 'run-finished', outcome: { ...FAILED, failure } } },
      ]);
      const texts = (await collect(store.read('r', 0))).flatMap(({ body }) =>
        body.type === 'notice' ? [body.message] : body.type === 'run-finished' ? [body.outcome.failure?.message] : [],
      );
      expect(texts.map((text) => text?.length)).toEqual([16_384, 16_384, 16_384]);
      expect(texts.map((text) => text?.slice(-24))).toEqual([
        'x… (7 characters more)'.padStart(24, 'x'),
        `${'x'.repeat(17)}the end`,
        'x… (7 characters more)'.padStart(24, 'x'),
      ]);
      expect((await store.find('r', 'run/finished'))?.body).toMatchObject({
        outcome: { failure: { stderrTail: expect.stringMatching(/^x+the end$/) } },
      });

      const stages = Array.from({ length: EVENT_LIMITS.bytes / 16 }, () => 'fifteen-letters');
      const restarted: NewRunEvent = {
        ...noticeEvent('too-large'),
        body: { type: 'scope-restarted', scope: 's', reason: 'x', stages },
      };
      // The caller would retry after a coded error.
      await expect(store.append('r', [noticeEvent('beside'), restarted])).rejects.toThrow(TypeError);
      expect((await collect(store.read('r', 3))).map(({ id }) => id)).toEqual([]);
      // Output has pieces of any size.
      await store.append('r', [outputEvent('a/0/1', 0, 'x'.repeat(EVENT_LIMITS.bytes + 1))]);
      expect(await store.outputCursor('r', 'a/0/1', 'stdout')).toBe(EVENT_LIMITS.bytes + 1);
    });

    test('closes after the current appends, and accepts no later append', async () => {
      const store = await fresh();
      await store.append('r', [noticeEvent('a')]);
      let ended = 0;
      const appends = Array.from({ length: 20 }, (_, index) =>
        store.append('r', [noticeEvent(`b/${index}`), { ...finishedEvent(), id: `end/${index}` }]).then(() => ended++),
      );
      await store.close();
      expect(ended).toBe(20);
      await Promise.all(appends);
      await expect(store.append('r', [noticeEvent('c')])).rejects.toThrow('after the store was closed');
      expect(await collect((await another()).read('r', 0))).toHaveLength(41);
    });

    test.each(['', 'x'.repeat(1_001), 'lone \ud800'])('refuses the run id %j', async (runId) => {
      const store = await fresh();
      await expect(store.append(runId, [noticeEvent('a')])).rejects.toMatchObject({ code: 'store/io' });
    });

    test('takes any id that Temporal takes, and keeps them apart', async () => {
      const store = await fresh();
      const ids = [
        '../up',
        '.hidden',
        'a/b',
        '..',
        'a:b',
        'a%3Ab',
        'new\nline',
        'nul\0',
        'x'.repeat(1_000),
        `${'x'.repeat(999)}y`,
        '実'.repeat(333),
      ].filter((id) => subject.unnamedIds?.includes(id) !== true);
      for (const id of ids) await store.append(id, [noticeEvent(`of ${id}`)]);
      expect(await (await another()).index.idsFrom('')).toHaveLength(ids.length);
      expect(new Set(await store.index.idsFrom(''))).toEqual(new Set(ids));
      for (const id of ids) expect((await collect(store.read(id, 0))).map((event) => event.id)).toEqual([`of ${id}`]);
    });

    test('keeps the first of an id, also within one append and for another store', async () => {
      const store = await fresh();
      expect(await store.append('r', [noticeEvent('a'), { ...noticeEvent('a'), atMs: 9 }])).toBe(1);
      expect(await (await another()).append('r', [{ ...noticeEvent('a'), atMs: 8 }, noticeEvent('b')])).toBe(1);
      expect(await store.append('r', [noticeEvent('b'), noticeEvent('a')])).toBe(0);
      expect((await collect(store.read('r', 0))).map((event) => [event.id, event.atMs])).toEqual([
        ['a', 1_000],
        ['b', 1_000],
      ]);
    });

    test('finds an event by its id, from any writer, and names missing events', async () => {
      const store = await fresh();
      await store.append('r', [noticeEvent('a'), noticeEvent('b'), outputEvent('a/0/1', 0, 'hello')]);
      await (await another()).append('r', [{ ...noticeEvent('c'), atMs: 7 }]);
      expect(await store.find('r', 'c')).toMatchObject({ seq: 4, id: 'c', atMs: 7 });
      expect(await store.find('r', 'a')).toMatchObject({ seq: 1, id: 'a' });
      expect(await store.find('r', 'd')).toBeNull();
      expect(await store.find('none', 'a')).toBeNull();
      expect(await store.index.idsFrom('')).toEqual(['r']);
    });

    test('gives output back as it was, small and large, and leaves it out on demand', async () => {
      const store = await fresh();
      const large = 'žluťoučký kůň\n'.repeat(10_000);
      await store.append('r', [outputEvent('a/0/1', 0, 'small'), outputEvent('a/0/1', 0, large, 'stderr')]);
      await store.append('r', [noticeEvent('between'), outputEvent('a/0/1', 5, large)]);
      const data = (await collect(store.read('r', 0))).flatMap(({ body }) =>
        body.type === 'output' ? [body.data] : [],
      );
      expect(data).toEqual(['small', large, large]);
      const without = await collect(store.read('r', 0, { output: false }));
      expect(without.map((event) => [event.seq, event.id])).toEqual([[3, 'between']]);
    });

    test('knows how far each stream is stored, and takes no byte twice', async () => {
      const store = await fresh();
      await store.append('r', [outputEvent('a/0/1', 0, 'hello'), outputEvent('a/0/1', 0, 'err', 'stderr')]);
      await store.append('r', [outputEvent('a/0/1', 5, ' world')]);
      const other = await another();
      expect(await other.outputCursor('r', 'a/0/1', 'stdout')).toBe(11);
      expect(await other.outputCursor('r', 'a/0/1', 'stderr')).toBe(3);
      expect(await other.outputCursor('r', 'a/0/2', 'stdout')).toBe(0);
      // Pieces with other borders that lie within the stored output.
      expect(await other.append('r', [outputEvent('a/0/1', 2, 'llo wo')])).toBe(0);
      await expect(other.append('r', [outputEvent('a/0/1', 8, 'rld and more')])).rejects.toThrow(
        /continue from outputCursor/,
      );
      expect(await store.outputCursor('r', 'a/0/1', 'stdout')).toBe(11);
    });

    test('refuses a lower fence once a higher one wrote, only for that exec', async () => {
      const old = await fresh();
      await old.append('r', [outputEvent('a/0/1', 0, 'one')], { execKey: 'a/0/1', fence: 1 });
      const young = await another();
      // A takeover is an append of nothing: from here on the old driver cannot move the cursor.
      expect(await young.append('r', [], { execKey: 'a/0/1', fence: 2 })).toBe(0);
      await expect(
        old.append('r', [outputEvent('a/0/1', 3, 'two')], { execKey: 'a/0/1', fence: 1 }),
      ).rejects.toMatchObject({ code: 'fence/stale' });
      await expect(old.append('r', [], { execKey: 'a/0/1', fence: 1 })).rejects.toMatchObject({
        code: 'fence/stale',
        message: expect.stringContaining('a newer attempt'),
      });
      expect(await old.append('r', [outputEvent('b/0/1', 0, 'b')], { execKey: 'b/0/1', fence: 1 })).toBe(1);
      expect(await young.append('r', [outputEvent('a/0/1', 3, 'TWO')], { execKey: 'a/0/1', fence: 2 })).toBe(1);
      // A store that is opened later knows the fence, too.
      await expect(
        (await another()).append('r', [noticeEvent('n')], { execKey: 'a/0/1', fence: 1 }),
      ).rejects.toMatchObject({ code: 'fence/stale' });
      const events = await collect(old.read('r', 0));
      expectNoGaps(events);
      expect(events.flatMap(({ body }) => (body.type === 'output' ? [body.data] : []))).toEqual(['one', 'b', 'TWO']);
    });

    test('ends a follow of a run that has ended, from any cursor', async () => {
      const store = await fresh();
      await store.append('r', [noticeEvent('a'), finishedEvent()]);
      expect((await collect(store.follow('r', 1, AbortSignal.timeout(20_000)))).map((event) => event.id)).toEqual([
        'run/finished',
      ]);
      // A reader that waits for more ends only by the abort.
      const limit = AbortSignal.timeout(20_000);
      expect(await collect(store.follow('r', 2, limit))).toEqual([]);
      expect(limit.aborted).toBe(false);
    });

    test('ends a follow on abort', async () => {
      const store = await fresh();
      await store.append('r', [noticeEvent('a')]);
      const abort = new AbortController();
      const ids: string[] = [];
      for await (const { id } of store.follow('r', 0, abort.signal)) {
        ids.push(id);
        // It waits for a second event until then.
        setTimeout(() => abort.abort(), 50);
      }
      expect(ids).toEqual(['a']);
    });

    if (factoryModule === null) return;

    test('takes appends of several processes at once without a gap, a loss or a double', async () => {
      const store = await fresh();
      const count = 200;
      const own = ['p', 'q', 'r'].map((prefix) => start({ kind: 'notices', runId: 'r', prefix, count, pauseMs: 0 }));
      const same = [0, 1].map(() => start({ kind: 'notices', runId: 'r', prefix: 'same', count, pauseMs: 0 }));
      let here = 0;
      for (let index = 0; index < count; index++)
        here += await store.append('r', [noticeEvent(`same/${index}`), noticeEvent(`here/${index}`)]);
      const freshOfOwn = await Promise.all(own.map((child) => child.done()));
      const freshOfSame = await Promise.all(same.map((child) => child.done()));
      expect(freshOfOwn).toEqual([{ fresh: count }, { fresh: count }, { fresh: count }]);
      expect(here + freshOfSame.reduce((sum, { fresh: said }) => sum + Number(said), 0)).toBe(2 * count);
      const events = await collect(store.read('r', 0));
      expectNoGaps(events);
      expect(new Set(events.map((event) => event.id)).size).toBe(events.length);
      expect(events.length).toBe(5 * count);
      const ofP = events.filter((event) => event.id.startsWith('p/')).map((event) => event.id);
      expect(ofP).toEqual(Array.from({ length: count }, (_, index) => `p/${index}`));
    }, 60_000);

    test('keeps what a writer was told, whenever it is killed', async () => {
      const store = await fresh();
      for (let round = 0; round < 5; round++) {
        const child = start({ kind: 'flood', runId: 'r', execKey: 'a/0/1', fence: round, pieceBytes: 700 + round });
        await expect.poll(() => child.lines.length, { timeout: 20_000, interval: 3 }).toBeGreaterThan(5 * (round + 1));
        await child.kill();
        const told = Number(child.lines.at(-1)?.['stored']);
        expect(await store.outputCursor('r', 'a/0/1', 'stdout')).toBeGreaterThanOrEqual(told);
      }
      await store.append('r', [noticeEvent('after')]);
      const events = await collect(store.read('r', 0));
      expectNoGaps(events);
      expect(events.at(-1)?.id).toBe('after');
      expectAlphabet(events);
    }, 60_000);

    test('does not wait for a stopped writer, and refuses it when it continues', async () => {
      const store = await fresh();
      const zombie = start({ kind: 'flood', runId: 'r', execKey: 'a/0/1', fence: 1, pieceBytes: 1_000 });
      await expect.poll(() => zombie.lines.length, { timeout: 20_000, interval: 3 }).toBeGreaterThan(3);
      zombie.signal('SIGSTOP');
      // A store that waited for the stopped writer would wait until the test's limit.
      await store.append('r', [], { execKey: 'a/0/1', fence: 2 });
      const from = await store.outputCursor('r', 'a/0/1', 'stdout');
      const data = Array.from({ length: 1_000 }, (_, index) => String.fromCharCode(97 + ((from + index) % 26))).join(
        '',
      );
      await store.append('r', [outputEvent('a/0/1', from, data)], { execKey: 'a/0/1', fence: 2 });
      zombie.signal('SIGCONT');
      expect(await zombie.done()).toEqual({ refused: 'fence/stale' });
      const events = await collect(store.read('r', 0));
      expectNoGaps(events);
      expectAlphabet(events);
      expect(await store.outputCursor('r', 'a/0/1', 'stdout')).toBe(from + 1_000);
    }, 60_000);

    test('follows a run that another process writes, from before its first event to its last', async () => {
      const store = await fresh();
      const following = collect(store.follow('r', 0, AbortSignal.timeout(30_000)));
      const child = start({ kind: 'notices', runId: 'r', prefix: 'p', count: 40, pauseMs: 5 });
      await child.done();
      await store.append('r', [finishedEvent()]);
      await store.append('r', [noticeEvent('late')]);
      const events = await following;
      expectNoGaps(events);
      expect(events.map((event) => event.id)).toEqual([
        ...Array.from({ length: 40 }, (_, index) => `p/${index}`),
        'run/finished',
      ]);
    }, 60_000);

    test('reads a run that is larger than the memory it may use', async () => {
      const store = await fresh();
      const pieceBytes = 64 * 1024;
      const pieces = 1_536;
      const data = 'x'.repeat(pieceBytes);
      for (let index = 0; index < pieces; index++)
        await store.append('r', [outputEvent('a/0/1', index * pieceBytes, data)]);
      const reader = start({ kind: 'read', runId: 'r' }, ['--max-old-space-size=40']);
      expect(await reader.done()).toEqual({ events: pieces, characters: pieces * pieceBytes });
    }, 60_000);
  });
}

/** The pieces join without a hole or an overlap, and each byte shows its position. */
function expectAlphabet(events: readonly RunEvent[]): void {
  let cursor = 0;
  for (const { body } of events) {
    if (body.type !== 'output') continue;
    expect(body.from).toBe(cursor);
    expect(body.data.length).toBe(body.to - body.from);
    for (let index = 0; index < body.data.length; index++) {
      if (body.data.charCodeAt(index) !== 97 + ((cursor + index) % 26))
        throw new Error(`byte ${cursor + index} is not what was written`);
    }
    cursor = body.to;
  }
  expect(cursor).toBeGreaterThan(0);
}

export interface ArtifactStoreSubject {
  readonly name: string;
  place(): Promise<{ readonly location: string; dispose(): Promise<void> }>;
  open(location: string): Promise<ArtifactStore>;
}

export async function* chunksOf(bytes: Uint8Array, chunkBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

export async function bytesOf(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(Uint8Array.from(chunk));
  return Buffer.concat(chunks);
}

export function describeArtifactStore(subject: ArtifactStoreSubject): void {
  describe(`${subject.name}: artifact store`, () => {
    let location: string;
    let dispose: () => Promise<void>;
    async function fresh(): Promise<ArtifactStore> {
      ({ location, dispose } = await subject.place());
      return subject.open(location);
    }
    afterEach(() => dispose());

    test.each([0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3_000_000])(
      'gives %i bytes back, from any offset',
      async (sizeBytes) => {
        const store = await fresh();
        const bytes = patterned(sizeBytes);
        const ref = await store.put(chunksOf(bytes, 70_000), 'text/plain');
        expect(ref).toMatchObject({ sizeBytes, mediaType: 'text/plain' });
        const other = await subject.open(location);
        expect((await bytesOf(other.open(ref))).equals(bytes)).toBe(true);
        for (const offset of [1, Math.floor(sizeBytes / 2), sizeBytes].filter((at) => at <= sizeBytes)) {
          expect((await bytesOf(other.open(ref, offset))).equals(bytes.subarray(offset))).toBe(true);
        }
      },
    );

    test('names bytes by their sha256', async () => {
      const store = await fresh();
      const ref = await store.put(chunksOf(Buffer.from('abc'), 1), 'text/plain');
      expect(ref.sha256).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    });

    test('takes the same bytes from many writers at once', async () => {
      const store = await fresh();
      const bytes = patterned(400_000);
      const refs = await Promise.all(
        Array.from({ length: 8 }, async (_, index) =>
          (index % 2 === 0 ? store : await subject.open(location)).put(chunksOf(bytes, 10_000 + index), 'a/b'),
        ),
      );
      expect(new Set(refs.map((ref) => ref.sha256)).size).toBe(1);
      expect((await bytesOf(store.open(refs[0] ?? missing()))).equals(bytes)).toBe(true);
    });

    test('keeps nothing of a source that fails, and hands its error on', async () => {
      const store = await fresh();
      const broken = async function* (): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(500_000);
        throw new Error('the guest went away');
      };
      await expect(store.put(broken(), 'a/b')).rejects.toThrow('the guest went away');
    });

    test('reports absent bytes and an invalid ref', async () => {
      const store = await fresh();
      const absent = { sha256: 'ab'.repeat(32), sizeBytes: 3, mediaType: 'a/b' };
      await expect(bytesOf(store.open(absent))).rejects.toMatchObject({ code: 'store/damaged' });
      await expect(bytesOf(store.open({ ...absent, sha256: '../../etc/passwd' }))).rejects.toMatchObject({
        code: 'store/damaged',
      });
    });

    test('is claimed only in the store that has it', async () => {
      const store = await fresh();
      const ref = await store.put(chunksOf(Buffer.from('abc'), 1), 'a/b');
      expect(await (await subject.open(location)).claim(ref)).toBe(true);
      expect(await store.claim({ ...ref, sizeBytes: 4 })).toBe(false);
      expect(await store.claim({ ...ref, sha256: 'ab'.repeat(32) })).toBe(false);
      expect(await store.claim({ ...ref, sha256: '../../etc/passwd' })).toBe(false);
    });

    test('reports a ref with another size', async () => {
      const store = await fresh();
      const ref = await store.put(chunksOf(Buffer.from('abc'), 1), 'a/b');
      await expect(bytesOf(store.open({ ...ref, sizeBytes: 4 }))).rejects.toMatchObject({ code: 'store/damaged' });
    });
  });
}

function patterned(sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  for (let index = 0; index < sizeBytes; index++) bytes[index] = (index * 31 + (index >> 8)) & 0xff;
  return bytes;
}

function missing(): never {
  throw new Error('nothing was stored');
}
