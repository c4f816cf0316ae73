/** Scans of real folders, over stores in memory. */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import { type FilePattern, patternOf } from '../../../domain/language/read/file-pattern.ts';
import { FOLDER_LIMITS } from '../../../domain/sources/file-rules.ts';
import type { TriggerStore } from '../../../store/triggers.ts';
import { makeVersion } from '../../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../../test/rig/access/memory-access.ts';
import { Fingerprints } from './fingerprints.ts';
import { openWatched } from './held-folder.ts';
import { type ScannedFolder, type ScanMemory, scanFolder, type ScanLimits, type ScanResult } from './scan-folder.ts';

const ID = { deployment: 'review', trigger: 'files' };

let dir: string;
let triggers: TriggerStore;
let memory: ScanMemory;
let put: (sizeBytes: number) => void;
let held: string[];
let ending: AbortController;

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-scan-')));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  ({ triggers } = createMemoryAccess());
  await triggers.deployments.deploy(makeVersion('review'), { isPaused: false });
  restart();
  held = [];
  put = () => undefined;
  ending = new AbortController();
});

/** A new process remembers nothing. */
function restart(): void {
  memory = { salt: randomBytes(16), files: new Fingerprints() };
}

interface Scanned {
  readonly match?: string;
  readonly existing?: 'skip' | 'start';
  readonly sinceMs?: number;
  readonly limits?: Partial<ScanLimits>;
  readonly own?: ScanMemory;
}

async function scan({
  match = '**/*',
  existing = 'start',
  sinceMs = 0,
  limits = {},
  own = memory,
}: Scanned = {}): Promise<ScanResult> {
  const root = await openWatched(dir);
  const folder: ScannedFolder = {
    id: ID,
    version: 1,
    isOrdered: false,
    source: { existing },
    pattern: patternOf(match) as FilePattern,
    path: dir,
    sinceMs,
  };
  try {
    return await scanFolder(root, folder, own, {
      sources: triggers.sources,
      artifacts: {
        async put(bytes, mediaType) {
          const hash = createHash('sha256');
          let sizeBytes = 0;
          for await (const chunk of bytes) {
            // The hash of a very large file is not compared.
            if (sizeBytes < 1_000_000) hash.update(chunk);
            sizeBytes += chunk.byteLength;
          }
          put(sizeBytes);
          return { sha256: hash.digest('hex'), sizeBytes, mediaType };
        },
      },
      held: { hold: (sha256) => Promise.resolve(void held.push(sha256)) },
      requireRoom: () => undefined,
      nowMs: () => Date.now(),
      wake: () => undefined,
      limits: { ...FOLDER_LIMITS, ...limits },
      signal: ending.signal,
    });
  } finally {
    await root.close();
  }
}

/** Two scans agree on the files. */
async function scanTwice(scanned: Scanned = {}): Promise<ScanResult> {
  await scan(scanned);
  return await scan(scanned);
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(dir, path)), { recursive: true });
  writeFileSync(join(dir, path), text);
}

interface Listed {
  readonly path: string;
  readonly state: string;
  readonly sha256?: string;
  readonly problem?: string;
}

/** The deliveries in the order of their paths. */
async function listDeliveries(): Promise<readonly Listed[]> {
  const rows = await triggers.deliveries.list({ limit: 9_999, trigger: 'files' });
  const listed = rows.map(async ({ id, state }) => {
    const body = await triggers.deliveries.readBody(id);
    return { ...(JSON.parse(Buffer.from(body!).toString()) as Listed), state };
  });
  return (await Promise.all(listed)).toSorted((one, other) => (one.path < other.path ? -1 : 1));
}

const listPaths = async (): Promise<readonly string[]> => (await listDeliveries()).map(({ path }) => path);

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

test('a file counts when two scans agree on it, and arrives as an artifact that is held', async () => {
  write('in/a.csv', 'a,ä');
  expect(await scan()).toEqual({ isUnfinished: true, problem: null });
  expect(await listDeliveries()).toEqual([]);
  expect(await scan()).toEqual({ isUnfinished: false, problem: null });
  const [delivery] = await listDeliveries();
  expect(delivery).toMatchObject({
    name: 'a.csv',
    path: 'in/a.csv',
    sizeBytes: 4,
    sha256: hash('a,ä'),
    artifact: { sha256: hash('a,ä'), sizeBytes: 4, mediaType: 'text/plain; charset=utf-8' },
    state: 'accepted',
  });
  expect(held).toEqual([hash('a,ä')]);
  expect(await scan()).toEqual({ isUnfinished: false, problem: null });
  expect(await listDeliveries()).toHaveLength(1);
});

test.each<[string, Buffer, string]>([
  ['text', Buffer.from('a,ä,€,𝄞'), 'text/plain; charset=utf-8'],
  ['no bytes', Buffer.alloc(0), 'text/plain; charset=utf-8'],
  ['text whose character is in two chunks', Buffer.from(`${'x'.repeat(256 * 1024 - 2)}€`), 'text/plain; charset=utf-8'],
  ['other bytes', Buffer.of(0x50, 0xff), 'application/octet-stream'],
  ['a character that is cut', Buffer.from('€').subarray(0, 2), 'application/octet-stream'],
  [
    'a wrong byte between two chunks',
    Buffer.from(`${'x'.repeat(256 * 1024 - 1)}\u00e4`, 'latin1'),
    'application/octet-stream',
  ],
])('the type of a file with %s is found', async (_what, bytes, mediaType) => {
  writeFileSync(join(dir, 'a'), bytes);
  await scanTwice();
  expect(await listDeliveries()).toMatchObject([{ artifact: { mediaType } }]);
});

test('a file that grows waits until it no longer does', async () => {
  write('a', '1');
  for (let times = 0; times < 4; times += 1) {
    await scan();
    appendFileSync(join(dir, 'a'), 'x');
  }
  expect(await listDeliveries()).toEqual([]);
  await scanTwice();
  expect(await listDeliveries()).toMatchObject([{ sha256: hash('1xxxx') }]);
});

test('a file that changes while it is read starts nothing until two scans agree on it', async () => {
  write('a', 'before');
  put = () => {
    put = () => undefined;
    writeFileSync(join(dir, 'a'), 'after!');
  };
  expect(await scanTwice()).toMatchObject({ isUnfinished: true });
  expect(await listDeliveries()).toEqual([]);
  await scanTwice();
  expect(await listDeliveries()).toMatchObject([{ sha256: hash('after!') }]);
});

test('a restart and a second service start nothing twice, and a changed file starts again', async () => {
  write('a', 'one');
  write('b', 'one');
  const other = { salt: randomBytes(16), files: new Fingerprints() };
  await scan({ own: other });
  await scanTwice();
  await scan({ own: other });
  restart();
  await scanTwice();
  expect(await listPaths()).toEqual(['a', 'b']);
  write('a', 'two');
  await scanTwice();
  expect(await listPaths()).toEqual(['a', 'a', 'b']);
});

test('an earlier content, a new time and another mode start nothing again', async () => {
  write('a', 'one');
  await scanTwice();
  write('a', 'two');
  await scanTwice();
  write('a', 'one');
  await scanTwice();
  utimesSync(join(dir, 'a'), new Date(5_000), new Date(5_000));
  await scanTwice();
  chmodSync(join(dir, 'a'), 0o600);
  await scanTwice();
  expect((await listDeliveries()).map(({ sha256 }) => sha256).toSorted()).toEqual(
    [hash('one'), hash('two')].toSorted(),
  );
  let reads = 0;
  put = () => (reads += 1);
  restart();
  await scanTwice();
  expect(reads).toBe(0);
});

test('files that were there before the trigger start nothing until their content changes', async () => {
  write('old', 'old');
  write('moved', 'moved');
  const skip = { existing: 'skip', sinceMs: Date.now() + 60_000 } as const;
  await scanTwice(skip);
  chmodSync(join(dir, 'old'), 0o600);
  // As if the trigger had begun before the change of the mode.
  const later = { existing: 'skip', sinceMs: 1 } as const;
  restart();
  await scanTwice(later);
  expect(await listDeliveries()).toEqual([]);
  write('old', 'new');
  write('new', 'new');
  await scanTwice(later);
  expect(await listPaths()).toEqual(['new', 'old']);
});

test('only names that match count, and a leading dot only if the pattern has it', async () => {
  for (const path of ['a.csv', 'a.txt', '.a.csv', 'in/b.csv', 'in/deep/c.csv', '.hidden/d.csv']) write(path, path);
  await scanTwice({ match: '*.csv' });
  expect(await listPaths()).toEqual(['a.csv']);
  await scanTwice({ match: '**/*.csv' });
  expect(await listPaths()).toEqual(['a.csv', 'in/b.csv', 'in/deep/c.csv']);
});

test('links, pipes, sockets and bad names are refused once, with an event', async () => {
  write('target', 'secret');
  symlinkSync(join(dir, 'target'), join(dir, 'link'));
  symlinkSync('/etc', join(dir, 'etc'));
  execFileSync('mkfifo', [join(dir, 'pipe')]);
  const server = createServer().listen(join(dir, 'socket'));
  onTestFinished(() => void server.close());
  writeFileSync(Buffer.concat([Buffer.from(`${dir}/bad-`), Buffer.of(0xff)]), 'x');
  writeFileSync(join(dir, 'new\nline'), 'x');
  await scanTwice();
  const problems = Object.fromEntries(
    (await listDeliveries()).map(({ path, state, problem }) => [path, [state, problem]]),
  );
  expect(problems).toEqual({
    target: ['accepted', undefined],
    link: ['refused', expect.stringContaining('links are not followed')],
    etc: ['refused', expect.stringContaining('links are not followed')],
    pipe: ['refused', 'it is a named pipe and not a file'],
    socket: ['refused', 'it is a socket and not a file'],
    'bad-\uFFFD': ['refused', 'its name is not UTF-8'],
    'new\uFFFDline': ['refused', 'its name has a control character'],
  });
  restart();
  await scanTwice();
  expect(await listDeliveries()).toHaveLength(7);
  rmSync(join(dir, 'link'));
  write('link', 'a file now');
  await scanTwice();
  expect(await listDeliveries()).toHaveLength(8);
});

test('a refusal has its code and names the file', async () => {
  symlinkSync('/etc/passwd', join(dir, 'a'));
  await scanTwice();
  expect(await triggers.deliveries.list({ limit: 9 })).toMatchObject([
    { state: 'refused', code: 'trigger/refused-file', message: 'a: it is a link, and links are not followed' },
  ]);
});

test('a folder that is swapped for a link between two scans leads nowhere', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'voidbox-outside-'));
  onTestFinished(() => rmSync(outside, { recursive: true, force: true }));
  writeFileSync(join(outside, 'a'), 'secret');
  write('in/a', 'public');
  await scan();
  // The scan has its list when the folder is swapped, so that it opens the file below the link.
  put = () => undefined;
  renameSync(join(dir, 'in'), join(dir, 'away'));
  symlinkSync(outside, join(dir, 'in'));
  await scanTwice();
  await scanTwice();
  const hashes = (await listDeliveries()).flatMap(({ sha256 }) => sha256 ?? []);
  expect(hashes).toEqual([hash('public')]);
});

test('a folder that is swapped while files in it are read leads nowhere', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'voidbox-outside-'));
  onTestFinished(() => rmSync(outside, { recursive: true, force: true }));
  for (const name of ['a', 'b', 'c']) {
    writeFileSync(join(outside, name), 'secret');
    write(`in/${name}`, 'public');
  }
  put = () => {
    put = () => undefined;
    renameSync(join(dir, 'in'), join(dir, 'away'));
    symlinkSync(outside, join(dir, 'in'));
  };
  await scanTwice();
  for (let times = 0; times < 3; times += 1) await scan();
  const hashes = new Set((await listDeliveries()).flatMap(({ sha256 }) => sha256 ?? []));
  expect(hashes).toEqual(new Set([hash('public')]));
});

test('the watched folder itself must not have become a link', async () => {
  const away = `${dir}-away`;
  renameSync(dir, away);
  symlinkSync(away, dir);
  onTestFinished(() => rmSync(away, { recursive: true, force: true }));
  await expect(scan()).rejects.toMatchObject({ name: 'FileRefusal' });
});

test('a file of the greatest size arrives, and one byte more is refused', async () => {
  write('most', '');
  truncateSync(join(dir, 'most'), FOLDER_LIMITS.fileBytes);
  write('more', '');
  truncateSync(join(dir, 'more'), FOLDER_LIMITS.fileBytes + 1);
  const sizes: number[] = [];
  put = (sizeBytes) => sizes.push(sizeBytes);
  await scanTwice();
  expect(sizes).toEqual([FOLDER_LIMITS.fileBytes]);
  expect(await listDeliveries()).toMatchObject([
    { path: 'more', state: 'refused' },
    { path: 'most', state: 'accepted' },
  ]);
}, 300_000);

test('a file below the greatest depth arrives, and a deeper folder is refused once', async () => {
  const deepest = Array.from({ length: FOLDER_LIMITS.depth }, (_, at) => `d${at}`).join('/');
  write(`${deepest}/a`, 'a');
  write(`${deepest}/more/b`, 'b');
  await scanTwice({ match: '**/*' });
  write(`${deepest}/more/c`, 'c');
  await scanTwice({ match: '**/*' });
  const listed = await listDeliveries();
  expect(listed.filter(({ state }) => state === 'accepted').map(({ path }) => path)).toEqual([`${deepest}/a`]);
  expect(listed.filter(({ state }) => state === 'refused')[0]).toMatchObject({
    path: `${deepest}/more`,
    problem: 'it is a folder below 16 others, and the scan goes no deeper',
  });
});

test('a path of the greatest length arrives, and a longer one is refused', async () => {
  const parts = Array.from({ length: 4 }, () => 'd'.repeat(200)).join('/');
  const room = FOLDER_LIMITS.pathBytes - parts.length - 1;
  write(`${parts}/${'a'.repeat(room)}`, 'a');
  write(`${parts}/${'b'.repeat(room + 1)}`, 'b');
  await scanTwice();
  expect((await listDeliveries()).map(({ state }) => state).toSorted()).toEqual(['accepted', 'refused']);
});

test('a scan looks at as many files and names as its limits, and tells that there are more', async () => {
  for (const name of ['a', 'b', 'c']) write(name, name);
  write('other.txt', '');
  expect(await scan({ limits: { files: 4 } })).toMatchObject({ problem: null });
  expect(await scan({ limits: { names: 4 } })).toMatchObject({ problem: null });
  expect(await scan({ limits: { files: 3 } })).toMatchObject({ problem: 'it has more than 3 files that match' });
  expect(await scan({ limits: { names: 3 } })).toMatchObject({ problem: 'it has more than 3 names' });
});

test('a scan reads as many bytes and makes as many deliveries as its limits, and the next one continues', async () => {
  for (const name of ['a', 'b', 'c', 'd', 'e']) write(name, name.repeat(10));
  await scan();
  const counts: number[] = [];
  for (let times = 0; times < 3; times += 1) {
    expect((await scan({ limits: { scanBytes: 20, fileBytes: 20 } })).isUnfinished).toBe(times < 2);
    counts.push((await listDeliveries()).length);
  }
  expect(counts).toEqual([2, 4, 5]);
  for (const name of ['f', 'g', 'h']) write(name, name);
  await scan();
  await scan({ limits: { scanDeliveries: 2 } });
  expect(await listDeliveries()).toHaveLength(7);
  await scan({ limits: { scanDeliveries: 2 } });
  expect(await listDeliveries()).toHaveLength(8);
});

test('nothing is lost if the disk is full or the store is away: a later scan continues', async () => {
  write('a', 'a');
  await scan();
  put = () => {
    throw new CodedError('store/io', 'no space left');
  };
  await expect(scan()).rejects.toThrow('no space left');
  put = () => undefined;
  const { acceptOnce } = triggers.sources;
  triggers.sources.acceptOnce = () => Promise.reject(new CodedError('host/disk-full', 'full'));
  await expect(scan()).rejects.toThrow('full');
  triggers.sources.acceptOnce = acceptOnce;
  await scan();
  expect(await listPaths()).toEqual(['a']);
});

test('a scan that is ended in the middle is continued by the next one', async () => {
  for (const name of ['a', 'b', 'c']) write(name, name);
  await scan();
  put = () => ending.abort();
  await scan();
  const before = (await listDeliveries()).length;
  expect(before).toBeLessThan(3);
  put = () => undefined;
  ending = new AbortController();
  await scan();
  expect(await listPaths()).toEqual(['a', 'b', 'c']);
});
