/** The statements of the docs about the guest, checked in a guest. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { Rig } from './rig.ts';

/** Programs of the image's table, and those that it says are absent. */
function documentedPrograms(): readonly string[] {
  const text = readFileSync(join(findPackageRoot(), 'docs', 'reference', 'guest.md'), 'utf8');
  const table = text.slice(text.indexOf('| for | programs |'), text.indexOf('Not there: '));
  const cells = table.split('\n').flatMap((line) => line.split('|').slice(2, 3));
  return cells.flatMap((cell) => [...cell.matchAll(/`([a-z0-9]+)`/g)].map((match) => match[1]!));
}

const ABSENT = ['bash', 'python3', 'node', 'perl', 'jq', 'git', 'curl', 'cc', 'apt'];

const SPEC = `api_version: v1
kind: workflow
name: guest
sandbox: { memory_mb: 256 }
workflow:
  output_step: look
  steps:
    - name: make
      run:
        program: sh
        args: [-c, 'mkdir -p tables/deep; echo a > tables/a.csv; echo b > tables/deep/b.csv; echo r > report.txt']
      outputs:
        - { name: tables, guest: /workspace/tables }
        - { name: report, guest: /workspace/report.txt }
    - name: look
      sandbox: { memory_mb: 256 }
      inputs: [{ from: tables, guest: /data/tables }, { from: report, guest: /data/report }, { from: report }]
      run:
        program: sh
        args:
          - -c
          - 'find /data /workspace -type f | sort; echo mine >> /data/report/report.txt && echo writable; echo --; for p in PROGRAMS; do command -v $p > /dev/null || echo no $p; done'
`;

test('inputs land where the docs say, and the image has the programs that they name', async () => {
  const programs = documentedPrograms();
  expect(programs.length).toBeGreaterThan(60);
  await using rig = new Rig();
  const spec = SPEC.replace('PROGRAMS', [...programs, ...ABSENT].join(' '));
  const run = await rig.cli('run', rig.spec('spec.yaml', spec), '--run-id', 'guest');
  expect(run.code, run.stderr).toBe(0);
  const [files, missing] = run.stdout.split('--\n');
  expect(files!.trim().split('\n')).toEqual([
    '/data/report/report.txt',
    '/data/tables/a.csv',
    '/data/tables/deep/b.csv',
    '/workspace/input/report.txt',
    'writable',
  ]);
  expect(missing!.trim().split('\n')).toEqual(ABSENT.map((name) => `no ${name}`));
});
