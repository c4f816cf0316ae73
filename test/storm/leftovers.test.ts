import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { brokenArtifacts, fileLeftovers, folderFindings } from './leftovers.ts';
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

test('a folder of the host that a run left otherwise is found', () => {
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

test('a seed gives the same strikes again, and over many rounds each target is killed and stopped', () => {
  expect(planStrikes(randomOf(roundSeed(7, 3)))).toEqual(planStrikes(randomOf(roundSeed(7, 3))));
  const blows = Array.from({ length: 200 }, (_, round) => planStrikes(randomOf(roundSeed(7, round)))).flatMap((strikes) =>
    strikes.flatMap((strike) => strike.blows),
  );
  for (const target of TARGETS) {
    const ofTarget = blows.filter((blow) => blow.target === target);
    expect(ofTarget.some(({ stopMs }) => stopMs === null) && ofTarget.some(({ stopMs }) => stopMs !== null), target).toBe(true);
  }
});
