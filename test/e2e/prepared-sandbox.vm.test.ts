/** A prepared sandbox on its way: `snapshot create --stage`, runs that start from it, its deletion. */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endRig } from '../rig/runs/examples.ts';
import { Rig } from './rig.ts';

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
    - { name: install, depends_on: [fetch], run: "wc -l < numbers > count && echo installed" }
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

test('runs start from the disk that a stage and the earlier stages of its VM have left', async () => {
  const spec = rig.spec('prepare.yaml', MAKER);
  const made = await rig.cli('snapshot', 'create', spec, '--stage', 'install', '--name', 'numbers', '--json');
  expect(made.code, made.stderr).toBe(0);
  expect(made.stderr).toMatch(/==> stage fetch\nfetched\n==> stage install\ninstalled\n/);
  const { prepared } = JSON.parse(made.stdout) as { readonly prepared: { readonly id: string } };
  expect(prepared).toMatchObject({
    name: 'numbers',
    diskMib: 64,
    withSecrets: false,
    madeBy: { run: 'prepare', stage: 'install' },
  });

  for (const name of ['numbers', prepared.id.slice(0, 16)]) {
    const run = await rig.cli('run', rig.spec('read.yaml', reader(name)));
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout + run.stderr).toContain('1000');
    expect((await rig.cli('result', 'latest')).stdout).toBe('1000\n1000\n');
  }
  const unknown = await rig.cli('run', rig.spec('unknown.yaml', reader('letters')));
  expect(unknown.code).not.toBe(0);
  expect(unknown.stdout + unknown.stderr).toContain('there is no prepared sandbox "letters" here; there are numbers (');

  expect((await rig.cli('snapshot', 'delete', 'numbers')).code).toBe(0);
  const deleted = await rig.cli('run', rig.spec('read.yaml', reader('numbers')));
  expect(deleted.stdout + deleted.stderr).toContain('admit/snapshot-unknown');
}, 240_000);

test('a stage that fails leaves no prepared sandbox', async () => {
  const spec = rig.spec('failing.yaml', MAKER.replace('echo installed', 'exit 3'));
  const made = await rig.cli('snapshot', 'create', spec, '--stage', 'install', '--name', 'failed');
  expect(made.code).toBe(1);
  expect(made.stderr).toContain('stage install failed, so nothing is kept');
  expect((await rig.cli('snapshot', 'list')).stdout).not.toContain('failed');
  rmSync(spec);
}, 120_000);
