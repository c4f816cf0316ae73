import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { brokenArtifacts, fileLeftovers, folderFindings, unfinishedFolderFindings } from './leftovers.ts';
import { randomOf, roundSeed } from './random.ts';
import { planStrikes, TARGETS } from './strikes.ts';

let folder = '';
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'voidbox-leftovers-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(path: string, text = ''): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

test('files of open runs and of living VMs are found', async () => {
  put('runs/r/events.jsonl');
  put('artifacts/.partial/abc');
  put('vms/1/exit.json');
  put('vms/1/exec/2/record.json.new');
  put('runs/never-started/records/input.json.0123456789ab.partial');
  expect(fileLeftovers(folder)).toEqual([]);
  put('runs/r/host-variables.json');
  put('runs/r/records/plan.json.0123.partial');
  put('vms/1/scratch.img');
  put('vms/1/fence.new');
  put('stack.json.4711');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(join(folder, 'vms/1/k.sock'), resolve));
  const found = fileLeftovers(folder).map((line) => line.split(':')[0]);
  await new Promise((resolve) => server.close(resolve));
  expect(found.toSorted()).toEqual(
    [
      'runs/r/host-variables.json',
      'runs/r/records/plan.json.0123.partial',
      'stack.json.4711',
      'vms/1/fence.new',
      'vms/1/k.sock',
      'vms/1/scratch.img',
    ].toSorted(),
  );
});

test('an artifact with other bytes than its name says is found', () => {
  const sha256 = createHash('sha256').update('whole').digest('hex');
  put(`artifacts/${sha256.slice(0, 2)}/${sha256}`, 'whole');
  expect(brokenArtifacts(folder)).toEqual([]);
  put(`artifacts/${sha256.slice(0, 2)}/${sha256}`, 'who');
  expect(brokenArtifacts(folder)).toEqual([expect.stringContaining('its bytes have the hash')]);
});

test('a folder of the host with other contents than expected is found', () => {
  put('shared/journal', 'before\nwritten\nwritten\n');
  put('shared/.voidbox-partial.1');
  expect(folderFindings(folder, { 'shared/journal': 'before\nwritten\n', 'shared/made': '' })).toEqual([
    'shared/.voidbox-partial.1 was not there to be made',
    String.raw`shared/journal holds "before\nwritten\nwritten\n", not "before\nwritten\n"`,
    'shared/made is missing',
  ]);
  rmSync(join(folder, 'shared/.voidbox-partial.1'));
  expect(folderFindings(folder, { 'shared/journal': 'before\nwritten\nwritten\n' })).toEqual([]);
});

test('a folder that a copy left behind is found, also an empty one, and so is a file where a folder should be', () => {
  put('shared/thing', 'a file\n');
  mkdirSync(join(folder, 'shared/.voidbox-staging'));
  expect(folderFindings(folder, { 'shared/thing/in': 'in\n' })).toEqual([
    'shared/.voidbox-staging was not there to be made',
    'shared/thing/in is missing',
  ]);
});

test('what a run that ended in its middle left is as before, or the beginning of what it makes', () => {
  const before = { 'shared/kept': 'kept\n', 'shared/thing': 'a file\n', 'shared/gone': 'goes\n' };
  const after = { 'shared/kept': 'kept\n', 'shared/thing/in': 'in\n', 'shared/left': 'left 1\nleft 2\n' };
  for (const [path, text] of Object.entries(before)) put(path, text);
  expect(unfinishedFolderFindings(folder, before, after)).toEqual([]);
  rmSync(join(folder, 'shared/gone'));
  rmSync(join(folder, 'shared/thing'));
  put('shared/left', 'left 1\n');
  expect(unfinishedFolderFindings(folder, before, after)).toEqual([]);
  put('shared/left', 'left 2\n');
  put('shared/kept', '');
  put('shared/strange');
  expect(unfinishedFolderFindings(folder, before, after)).toEqual([
    'shared/strange was not there to be made',
    String.raw`shared/kept holds "", not "kept\n"`,
    String.raw`shared/left holds "left 2\n", not "left 1\nleft 2\n"`,
  ]);
  rmSync(join(folder, 'shared/kept'));
  rmSync(join(folder, 'shared/strange'));
  put('shared/left', '');
  expect(unfinishedFolderFindings(folder, before, after)).toEqual(['shared/kept is missing']);
});

test('a storm with a disk fills it once in each round, for at most as long as the longest stop', () => {
  const fills = (hasDisk: boolean): readonly number[] =>
    Array.from({ length: 100 }, (_, round) => planStrikes(randomOf(roundSeed(7, round)), hasDisk)).map(
      (strikes) => strikes.filter(({ diskFullMs }) => diskFullMs !== null).length,
    );
  expect(new Set(fills(true))).toEqual(new Set([1]));
  expect(new Set(fills(false))).toEqual(new Set([0]));
});

test('a seed gives the same strikes again, and over many rounds each target is killed and stopped', () => {
  expect(planStrikes(randomOf(roundSeed(7, 3)), true)).toEqual(planStrikes(randomOf(roundSeed(7, 3)), true));
  const blows = Array.from({ length: 200 }, (_, round) => planStrikes(randomOf(roundSeed(7, round)), false)).flatMap(
    (strikes) => strikes.flatMap((strike) => strike.blows),
  );
  for (const target of TARGETS) {
    const ofTarget = blows.filter((blow) => blow.target === target);
    expect(
      ofTarget.some(({ stopMs }) => stopMs === null) && ofTarget.some(({ stopMs }) => stopMs !== null),
      target,
    ).toBe(true);
  }
});
