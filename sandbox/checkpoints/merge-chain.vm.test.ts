/** Merges of chains by the real `voidbox-vmm`, of VMs that never ran. It needs no KVM. */
import { Buffer } from 'node:buffer';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { listLinkFiles } from '../../domain/run/checkpoint.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeContext } from '../../setup/pieces/context.ts';
import { getBinary, VMM_BINARY } from '../../setup/pieces/rust-binaries.ts';
import {
  CHAIN_MEMORY_MIB,
  leaveChain,
  makeState,
  nameState,
  PAGE_BYTES,
  makePage,
} from '../../test/rig/vms/saved-chain.ts';
import { linkCheckpoint, readCheckpoint } from './folder.ts';
import { mergeChain, type MergedCheckpoint } from './merge-chain.ts';

/** Compiling `voidbox-vmm` takes a minute of a CPU, which other groups use too. */
const BUILD_LIMIT_MS = 900_000;
const BEGIN_LIMIT_MS = 30_000;
/** From the begin of a merge to the kill: some fall into it, others before or behind the new record. */
const KILLS_AFTER_MS = [0, 40, 5, 90, 15, 60, 2, 120, 25, 8] as const;

const MERGE = `
const [dist, dir, program] = process.argv.slice(1);
const { mergeChain } = await import(dist + '/merge-chain.js');
console.log('begun');
await mergeChain(dir, { program, claim: () => undefined, signal: new AbortController().signal });
`;

let program: string;
let root: string;
let dir: string;
beforeAll(async () => {
  // On a host without KVM, set-up itself gets no VMM.
  program = (await getBinary(await makeContext(readEnvironment(), undefined), VMM_BINARY)).path;
}, BUILD_LIMIT_MS);
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'voidbox-merge-'));
  dir = join(root, 'chain');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function merge(claim: (mostBytes: number) => void = () => undefined): Promise<MergedCheckpoint> {
  return mergeChain(dir, { program, claim, signal: AbortSignal.timeout(60_000) });
}

function readPage(path: string, page: number): Buffer {
  const bytes = Buffer.alloc(PAGE_BYTES);
  const file = openSync(path, 'r');
  readSync(file, bytes, 0, PAGE_BYTES, page * PAGE_BYTES);
  closeSync(file);
  return bytes;
}

/** The content of each file of the folder. */
function readAll(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    readdirSync(dir).map((name) => [name, readFileSync(join(dir, name)).toString('base64')] as const),
  );
}

/** Fails unless the folder has one link with the pages of all links, and nothing else. */
function expectMerged(links: number): void {
  const number = String(links);
  expect(readdirSync(dir).toSorted()).toEqual(['checkpoint.json', 'disk', `memory-${number}`, `state-${number}`]);
  expect(readFileSync(join(dir, `state-${number}`)).equals(makeState(links - 1, true))).toBe(true);
  for (let page = 0; page < links; page += 1)
    expect(readPage(join(dir, `memory-${number}`), page).equals(makePage(page)), `page ${page}`).toBe(true);
}

test('a chain of eight links becomes one with the name of the newest, and the checkpoint keeps its name and id', async () => {
  const before = leaveChain(dir, { links: 8, name: 'warm' });
  const claimed: number[] = [];
  const merged = await merge((mostBytes) => void claimed.push(mostBytes));
  expectMerged(8);
  const { memory, usedBytes, ...rest } = merged.record;
  expect(rest).toEqual({ ...rest, id: before.id, name: 'warm', createdAtMs: before.createdAtMs });
  expect(memory).toEqual({ ...before.memory, links: [nameState(7)], firstFile: 8 });
  expect(readCheckpoint(dir)).toEqual(merged.record);
  expect(usedBytes).toBeGreaterThan(8 * PAGE_BYTES);
  expect(claimed[0]).toBeGreaterThanOrEqual(8 * PAGE_BYTES);
  // Another folder of it has the numbers of a chain that was never merged.
  await linkCheckpoint(dir, join(root, 'copy'));
  const copy = readCheckpoint(join(root, 'copy')).memory!;
  expect([copy.links, copy.firstFile, readdirSync(join(root, 'copy')).toSorted()]).toEqual([
    [nameState(7)],
    undefined,
    ['checkpoint.json', 'disk', 'memory-0', 'state-0'],
  ]);
  // A second merge has nothing to do.
  expect((await merge()).record).toEqual(merged.record);
  expectMerged(8);
});

test('a link that is damaged, missing, a link to another place, or open to other users is named, and the chain stays', async () => {
  leaveChain(dir, { links: 3 });
  const whole = readAll();
  const damages: readonly (readonly [string, string, () => void])[] = [
    [
      'link 2 of 3, memory-1',
      'checksum',
      () => writeFileSync(join(dir, 'memory-1'), Buffer.alloc(CHAIN_MEMORY_MIB << 20)),
    ],
    ['link 3 of 3, state-2', '', () => truncateSync(join(dir, 'state-2'), 30)],
    ['link 2 of 3, memory-1', '', () => truncateSync(join(dir, 'memory-1'), 4096)],
    ['link 1 of 3, state-0', 'ENOENT', () => rmSync(join(dir, 'state-0'))],
    ['link 3 of 3, memory-2', 'another user', () => chmodSync(join(dir, 'memory-2'), 0o666)],
    [
      'link 1 of 3, memory-0',
      'ELOOP',
      () => {
        rmSync(join(dir, 'memory-0'));
        symlinkSync('memory-1', join(dir, 'memory-0'));
      },
    ],
  ];
  for (const [link, text, damage] of damages) {
    damage();
    const names = readdirSync(dir).toSorted();
    const error = await merge().then(
      () => null,
      (e: unknown) => e as Error & { code?: string },
    );
    expect([error?.code, error?.message], link).toEqual(['vm/checkpoint-unfit', expect.stringContaining(link)]);
    expect(error?.message).toContain(text);
    expect(readdirSync(dir).toSorted(), link).toEqual(names);
    rmSync(dir, { recursive: true });
    leaveChain(dir, { links: 3 });
  }
  expect(readAll()).toEqual(whole);
});

test('a claim that is refused, a signal and a program that cannot start leave the chain as it is', async () => {
  leaveChain(dir, { links: 2 });
  const whole = readAll();
  const refuse = (): never => {
    throw new Error('no room');
  };
  await expect(merge(refuse)).rejects.toThrow('no room');
  const options = { program, claim: () => undefined };
  await expect(mergeChain(dir, { ...options, signal: AbortSignal.abort(new Error('stopped')) })).rejects.toThrow(
    'stopped',
  );
  const signal = AbortSignal.timeout(60_000);
  await expect(mergeChain(dir, { ...options, program: '/no/program', signal })).rejects.toMatchObject({
    code: 'host/not-ready',
  });
  await expect(mergeChain(dir, { ...options, program: '/bin/false', signal })).rejects.toMatchObject({
    code: 'store/io',
  });
  expect(readAll()).toEqual(whole);
});

test('a merge that is killed ten times leaves a chain that is whole, and the next one ends it', async () => {
  const dist = join(findPackageRoot(), 'dist/sandbox/checkpoints');
  let halves = 0;
  for (const [kill, afterMs] of KILLS_AFTER_MS.entries()) {
    rmSync(dir, { recursive: true, force: true });
    leaveChain(dir, { links: 4, moreBasePages: 4096 });
    const before = readdirSync(dir).length;
    const args = ['--input-type=module', '-e', MERGE, dist, dir, program];
    const worker = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(worker, 'exit');
    const begun = Date.now();
    while (readdirSync(dir).length === before && worker.exitCode === null) {
      expect(Date.now() - begun, 'the merge has begun').toBeLessThan(BEGIN_LIMIT_MS);
      await sleep(1);
    }
    await sleep(afterMs);
    worker.kill('SIGKILL');
    await ended;
    const { memory } = readCheckpoint(dir);
    const files = listLinkFiles(memory!);
    if (memory!.links.length === 4 && readdirSync(dir).includes('memory-4')) halves += 1;
    for (const [at, names] of files.entries()) {
      const number = files.length === 1 ? 3 : at;
      expect(readFileSync(join(dir, names.state)).equals(makeState(number, at === 0)), `kill ${kill}`).toBe(true);
    }
    await merge();
    expectMerged(4);
  }
  expect(halves, 'kills in the middle of a merge').toBeGreaterThan(0);
}, 120_000);
