/** A prepared sandbox on its way: `snapshot create --stage`, runs that start from it, its deletion. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endRig } from '../rig/runs/examples.ts';
import { type CliResult, Rig } from './rig.ts';

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(() => endRig(rig));

const MAKER = `api_version: v1
kind: workflow
name: prepare
sandbox: { memory_mb: 192, disk_mb: 64 }
workflow:
  steps:
    - { name: fetch, run: "seq 1 1000 > numbers && echo fetched" }
    - { name: install, depends_on: [fetch], secrets: [TOKEN], run: 'test "$TOKEN" = opened && wc -l < numbers > count && echo installed' }
    - { name: later, depends_on: [install], run: "echo never > count" }
`;

const reader = (name: string): string => `api_version: v1
kind: workflow
name: read
sandbox: { memory_mb: 192, disk_mb: 64, snapshot: ${name} }
workflow:
  steps:
    - { name: read, run: "cat count; tail -n 1 numbers" }
`;

/** A spec of Void-Box whose `snapshot` is not commented out. Its agent writes its output from the disk. */
function makeVoidBoxSpec(snapshot: string): string {
  const file = join(import.meta.dirname, '../compat/void-box/specs/snapshot_restore.yaml');
  const script = JSON.stringify([{ run: 'cat count numbers | head -n 2 > output.json' }, { result: 'done' }]);
  return readFileSync(file, 'utf8')
    .replace(/# snapshot: ".*"/, `snapshot: "${snapshot}"\n  env: { MOCK_AGENT_SCRIPT: '${script}' }`)
    .replace('memory_mb: 1024', 'memory_mb: 192');
}

const prepare = (spec: string, name: string, ...options: readonly string[]): Promise<CliResult> =>
  rig.startWith({ TOKEN: 'opened' }, 'snapshot', 'create', spec, '--stage', 'install', '--name', name, ...options).done;

test('runs start from the disk that a stage and the earlier stages of its VM have left', async () => {
  const spec = rig.spec('prepare.yaml', MAKER);
  const made = await prepare(spec, 'numbers', '--with-secrets', '--json');
  expect(made.code, made.stderr).toBe(0);
  expect(made.stderr).toMatch(/==> stage fetch\nfetched\n==> stage install\ninstalled\n/);
  const { prepared } = JSON.parse(made.stdout) as { readonly prepared: { readonly id: string } };
  expect(prepared).toMatchObject({
    name: 'numbers',
    diskMib: 64,
    withSecrets: true,
    madeBy: { run: 'prepare', stage: 'install' },
  });

  const run = await rig.cli('run', rig.spec('read.yaml', reader('numbers')));
  expect(run.code, run.stderr).toBe(0);
  expect((await rig.cli('result', 'latest')).stdout).toBe('1000\n1000\n');
  const ofVoidBox = rig.spec('void-box.yaml', makeVoidBoxSpec(prepared.id.slice(0, 16)));
  const played = await rig.cli('run', ofVoidBox, '--mock-agents');
  expect(played.code, played.stderr).toBe(0);
  expect((await rig.cli('result', 'latest')).stdout).toBe('1000\n1\n');

  const base = await rig.cli('snapshot', 'create', rig.spec('read.yaml', reader('numbers')), '--json');
  expect(base.code, base.stderr).toBe(0);
  const outcome = expect.stringMatching(/^(?:made|exists)$/) as string;
  const key = expect.stringMatching(/^[0-9a-f]{64}$/) as string;
  expect(JSON.parse(base.stdout)).toMatchObject({
    snapshots: [{ memoryMib: 192, vcpus: 1, hasMounts: false, outcome, key, sizeBytes: expect.any(Number) as number }],
    bootingVms: 0,
  });

  // What is made from a marked disk is marked too.
  const copied = await rig.cli('snapshot', 'create', rig.spec('read.yaml', reader('numbers')), '--stage', 'read');
  expect(copied).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('the prepared sandbox "numbers"') as string,
  });
  const unknown = await rig.cli('run', rig.spec('unknown.yaml', reader('letters')));
  expect(unknown.code).not.toBe(0);
  expect(unknown.stdout + unknown.stderr).toContain('there is no prepared sandbox "letters" here; there are numbers (');

  expect((await rig.cli('snapshot', 'delete', 'numbers')).code).toBe(0);
  const deleted = await rig.cli('run', rig.spec('read.yaml', reader('numbers')));
  expect(deleted.stdout + deleted.stderr).toContain('admit/snapshot-unknown');
}, 240_000);

test('a stage that fails leaves no prepared sandbox', async () => {
  const spec = rig.spec('failing.yaml', MAKER.replace('echo installed', 'exit 3'));
  const made = await prepare(spec, 'failed', '--with-secrets');
  expect(made.code).toBe(1);
  expect(made.stderr).toContain('stage install failed, so nothing is kept');
  expect((await rig.cli('snapshot', 'list')).stdout).not.toContain('failed');
  rmSync(spec);
}, 120_000);
