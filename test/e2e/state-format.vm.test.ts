/** A state folder without a number, as builds before the first release left them, while its stack and a VM run. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { STATE_CONTENTS } from '../../store/state-format.ts';
import { counting, countedOnce } from './specs.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

test('run refuses the folder, ps shows its stack and VM, down ends the stack, and with its number the run continues', async () => {
  const rig = theRig();
  const spec = rig.spec('spec.yaml', counting(200, 0.2));
  await rig.launch(spec, 'before');
  await rig.waitOutput('before', 'count', 'line 5\n');
  const file = join(rig.stateDir, 'state-format');
  expect(readFileSync(file, 'utf8')).toBe('1\n');
  const known = [...STATE_CONTENTS, 'logs', 'stack.lock', 'stack.stopped', 'state-format'];
  // A folder without a number must not pass as an empty one because of an unknown name in it.
  expect(
    readdirSync(rig.stateDir).filter((name) => !known.includes(name) && !/^temporal\.db-(?:wal|shm)$/.test(name)),
  ).toEqual([]);
  const { supervisorPid } = await rig.liveStack();
  rmSync(file);

  const refusal = 'has contents of Voidbox but no format number (state-format); this build of Voidbox reads format 1';
  for (const args of [['run', spec], ['up'], ['logs', 'before'], ['cancel', 'before']]) {
    const { code, stderr } = await rig.cli(...args);
    expect([args[0], code, stderr]).toEqual([args[0], 3, expect.stringContaining(refusal)]);
  }
  const shown = JSON.parse((await rig.cli('ps', '--json')).stdout);
  expect(shown).toMatchObject({
    stack: { supervisorPid },
    vms: [{ state: 'running', runId: 'before' }],
    stateProblem: expect.stringContaining(refusal),
  });
  const ended = await rig.cli('down');
  expect(ended.code).toBe(0);
  expect(ended.stdout).toContain('The embedded stack has stopped.\nThis build cannot continue its runs: ');
  expect(ended.stdout).toContain('1 VM of its runs keeps running and ends after 15 minutes without a worker');
  expect(JSON.parse((await rig.cli('ps', '--json')).stdout)).toMatchObject({ stack: null, vms: [{ runId: 'before' }] });
  expect((await rig.cli('run', spec)).code).toBe(3);

  writeFileSync(file, '1\n');
  expect((await rig.cli('up')).code).toBe(0);
  expect((await rig.finish('before')).outcome.state).toBe('succeeded');
  expect(await rig.output('before', 'count')).toBe(countedOnce(200));
});
